/* Makes the n-th call of the system under a folder fail: preloaded by tests/faults.py.
 *
 * The calls counted are those that open, write, sync, rename, link, truncate or make a file or folder below `under`, of
 * the command and its children. State is a shared file, so that all processes count together. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum fault { NONE, NO_SPACE, IO_ERROR, INTERRUPTED, SHORT_WRITE, KILL, FULL, TORN, PAUSE };

/* tests/faults.py writes and reads this. */
struct state {
  _Atomic unsigned long armed, count;
  unsigned long at, fault;
  char under[512], call[512];
};

static struct state *state;

__attribute__((constructor)) static void map_state(void) {
  const char *path = getenv("FAULT_STATE");
  int file = path ? open(path, O_RDWR) : -1;
  if (file < 0) return;
  void *place = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (place != MAP_FAILED) state = place;
}

static int is_under(const char *path) {
  size_t length = strlen(state->under);
  return strncmp(path, state->under, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* The absolute path of a name; without links resolved, which the tests do not have. */
static int full_path(int folder, const char *path, char *into, size_t size) {
  if (path[0] == '/') return snprintf(into, size, "%s", path) > 0;
  char base[1024];
  if (folder == AT_FDCWD) {
    if (!getcwd(base, sizeof base)) return 0;
  } else {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", folder);
    ssize_t length = readlink(name, base, sizeof base - 1);
    if (length < 0) return 0;
    base[length] = 0;
  }
  return snprintf(into, size, "%s/%s", base, path) > 0;
}

/* The fault that this call meets. Allocating calls also fail on a full disk, from the n-th call on. */
static enum fault meet(const char *call, int folder, const char *path, int allocates) {
  if (!state || !state->armed) return NONE;
  char full[2048];
  int kept = errno;
  int found = full_path(folder, path, full, sizeof full) && is_under(full);
  errno = kept;
  if (!found) return NONE;
  unsigned long number = ++state->count;
  if (number == state->at) snprintf(state->call, sizeof state->call, "%s %s", call, full + strlen(state->under));
  if (state->fault == FULL) return state->at && number >= state->at && allocates ? NO_SPACE : NONE;
  if (number != state->at) return NONE;
  if (state->fault == KILL || (state->fault == TORN && strcmp(call, "write") != 0)) kill(getpid(), SIGKILL);
  if (state->fault == PAUSE) raise(SIGSTOP);
  return state->fault;
}

static enum fault meet_file(const char *call, int file, int allocates) {
  if (!state || !state->armed) return NONE;
  char name[64], path[1024];
  int kept = errno;
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  ssize_t length = readlink(name, path, sizeof path - 1);
  errno = kept;
  if (length <= 0 || path[0] != '/') return NONE;
  path[length] = 0;
  return meet(call, AT_FDCWD, path, allocates);
}

static int error_of(enum fault fault) {
  return fault == NO_SPACE ? ENOSPC : fault == IO_ERROR ? EIO : fault == INTERRUPTED ? EINTR : 0;
}

#define FAIL(fault) \
  do { int number = error_of(fault); if (number) { errno = number; return -1; } } while (0)
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define NAME_OF_OPEN (flags & (O_CREAT | O_WRONLY | O_RDWR) ? "open" : "read")
#define OPEN() \
  va_list rest; \
  va_start(rest, flags); \
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
  va_end(rest)

int open(const char *path, int flags, ...) {
  OPEN();
  FAIL(meet(NAME_OF_OPEN, AT_FDCWD, path, flags & O_CREAT));
  return NEXT(open)(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  OPEN();
  FAIL(meet(NAME_OF_OPEN, AT_FDCWD, path, flags & O_CREAT));
  return NEXT(open64)(path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
  OPEN();
  FAIL(meet(NAME_OF_OPEN, folder, path, flags & O_CREAT));
  return NEXT(openat)(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
  OPEN();
  FAIL(meet(NAME_OF_OPEN, folder, path, flags & O_CREAT));
  return NEXT(openat64)(folder, path, flags, mode);
}

/* Writes half, and dies if the fault is a torn write; -2: the caller writes all. */
static ssize_t write_half(enum fault fault, int file, const void *bytes, size_t count, off_t at) {
  if (fault != TORN && fault != SHORT_WRITE) return -2;
  size_t half = count > 1 ? count / 2 : count;
  ssize_t done = at < 0 ? NEXT(write)(file, bytes, half) : NEXT(pwrite)(file, bytes, half, at);
  if (fault == TORN) kill(getpid(), SIGKILL);
  return done;
}

ssize_t write(int file, const void *bytes, size_t count) {
  enum fault fault = meet_file("write", file, 1);
  FAIL(fault);
  ssize_t done = write_half(fault, file, bytes, count, -1);
  return done == -2 ? NEXT(write)(file, bytes, count) : done;
}
ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) {
  enum fault fault = meet_file("write", file, 1);
  FAIL(fault);
  ssize_t done = write_half(fault, file, bytes, count, at);
  return done == -2 ? NEXT(pwrite)(file, bytes, count, at) : done;
}
ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) { return pwrite(file, bytes, count, at); }
ssize_t writev(int file, const struct iovec *parts, int count) {
  enum fault fault = meet_file("write", file, 1);
  FAIL(fault);
  ssize_t done = count ? write_half(fault, file, parts[0].iov_base, parts[0].iov_len, -1) : -2;
  return done == -2 ? NEXT(writev)(file, parts, count) : done;
}
ssize_t sendfile(int to, int from, off_t *at, size_t count) {
  enum fault fault = meet_file("write", to, 1);
  FAIL(fault);
  ssize_t done = NEXT(sendfile)(to, from, at, fault == NONE || count < 2 ? count : count / 2);
  if (fault == TORN) kill(getpid(), SIGKILL);
  return done;
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t count) { return sendfile(to, from, (off_t *)at, count); }

#define ON_FILE(type, name, call, allocates, declared, ...) \
  type name declared { \
    FAIL(meet_file(call, file, allocates)); \
    return NEXT(name)(__VA_ARGS__); \
  }
ON_FILE(int, fsync, "fsync", 0, (int file), file)
ON_FILE(int, fdatasync, "fsync", 0, (int file), file)
ON_FILE(int, ftruncate, "ftruncate", 0, (int file, off_t size), file, size)
ON_FILE(int, ftruncate64, "ftruncate", 0, (int file, off64_t size), file, size)

#define ON_PATH(name, folder, path, allocates, declared, ...) \
  int name declared { \
    FAIL(meet(#name, folder, path, allocates)); \
    return NEXT(name)(__VA_ARGS__); \
  }
ON_PATH(rename, AT_FDCWD, to, 0, (const char *from, const char *to), from, to)
ON_PATH(renameat, folder, to, 0, (int other, const char *from, int folder, const char *to), other, from, folder, to)
ON_PATH(renameat2, folder, to, 0, (int other, const char *from, int folder, const char *to, unsigned flags), other, from,
        folder, to, flags)
ON_PATH(link, AT_FDCWD, to, 1, (const char *from, const char *to), from, to)
ON_PATH(linkat, folder, to, 1, (int other, const char *from, int folder, const char *to, int flags), other, from, folder,
        to, flags)
ON_PATH(symlink, AT_FDCWD, to, 1, (const char *from, const char *to), from, to)
ON_PATH(mkdir, AT_FDCWD, path, 1, (const char *path, mode_t mode), path, mode)
ON_PATH(mkdirat, folder, path, 1, (int folder, const char *path, mode_t mode), folder, path, mode)
ON_PATH(unlink, AT_FDCWD, path, 0, (const char *path), path)
ON_PATH(unlinkat, folder, path, 0, (int folder, const char *path, int flags), folder, path, flags)
ON_PATH(rmdir, AT_FDCWD, path, 0, (const char *path), path)
