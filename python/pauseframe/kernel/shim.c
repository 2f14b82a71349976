/* Loaded before the C library of a user-mode kernel (LD_PRELOAD).
 *
 * Random numbers: the kernel seeds its generator with getrandom() of the computer that it runs on. Here it gets numbers that follow
 * from PAUSEFRAME_SEED, so ports, sequence numbers and hashes are the same in every run.
 *
 * Processor state: on processors with AMX the state of a process is larger than the kernel was compiled for, and ptrace() refuses to
 * set a part of it. The rest is filled with zeros and marked as unused.
 *
 * Calls of network devices: the simulator notes them in the memory of shared time (crates/kernel/src/shared_time.rs) and lets the kernel run.
 * Before the kernel reads that it may run, it gets their messages from here, on the sockets that it has given to the devices. That
 * spares two changes of process for each call. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define GETREGSET 0x4204
#define SETREGSET 0x4205
#define NT_XSTATE 0x202

static char area[65536] __attribute__((aligned(64)));
static size_t host_len;

static long raw(long request, long pid, void *address, void *data)
{
	return syscall(SYS_ptrace, request, pid, address, data);
}

long ptrace(int request, ...)
{
	va_list ap;
	va_start(ap, request);
	long pid = va_arg(ap, int);
	void *address = va_arg(ap, void *);
	void *data = va_arg(ap, void *);
	va_end(ap);
	if (request == SETREGSET && (long)address == NT_XSTATE) {
		struct iovec *in = data, io = { area, sizeof area };
		uint64_t used;

		if (!host_len) {
			if (raw(GETREGSET, pid, address, &io)) return -1;
			host_len = io.iov_len;
			memset(area, 0, sizeof area);
		}
		if (host_len > in->iov_len) {
			memcpy(area, in->iov_base, in->iov_len);
			memcpy(&used, area + 512, 8);
			used &= 0x2ff; /* x87 to AVX-512 and PKRU lie within the first 2,696 bytes */
			memcpy(area + 512, &used, 8);
			io.iov_base = area;
			io.iov_len = host_len;
			return raw(request, pid, address, &io);
		}
	}
	if (request >= 1 && request <= 3) { /* PEEK: the C library returns the word */
		long word;
		if (raw(request, pid, address, &word) < 0) return -1;
		errno = 0;
		return word;
	}
	return raw(request, pid, address, data);
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
	static uint64_t state;
	static int seeded;
	(void)flags;
	if (!seeded) {
		const char *seed = getenv("PAUSEFRAME_SEED");
		state = seed ? strtoull(seed, NULL, 10) : 0;
		seeded = 1;
	}
	for (size_t at = 0; at < length; at += 8) {
		uint64_t z = state += 0x9e3779b97f4a7c15;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		z ^= z >> 31;
		memcpy((char *)buffer + at, &z, length - at < 8 ? length - at : 8);
	}
	return length;
}

/* ---------- calls of devices ---------- */

#define SET_BACKEND_REQ_FD 21
#define VRING_CALL 4
#define VERSION 1
#define DEVICES_MAX 64
/* In the memory of shared time. */
#define FREE_UNTIL_AT 8
#define CALLS_AT 1024
#define THEN_FREE_UNTIL_AT 1040
#define NOW_AT 16
#define FLAGS_AT (4096 + 128 + 4)
#define REQUEST_AT (4096 + 128 + 8)
#define REQUESTS_RUN 1
#define MAPPED 8192
#define WAIT 3

static int call_sockets[DEVICES_MAX], devices, time_socket = -1;

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	if (!strcmp(((const struct sockaddr_un *)address)->sun_path, "time")) time_socket = fd;
	return syscall(SYS_connect, fd, address, length);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	const struct cmsghdr *files = CMSG_FIRSTHDR(message);
	if (files && message->msg_iovlen && *(uint32_t *)message->msg_iov[0].iov_base == SET_BACKEND_REQ_FD && devices < DEVICES_MAX)
		call_sockets[devices++] = dup(*(int *)CMSG_DATA(files));
	return syscall(SYS_sendmsg, fd, message, flags);
}

static volatile char *shared_time(void)
{
	static char *memory;
	const char *fd = memory ? NULL : getenv("PAUSEFRAME_TIME");
	if (fd) memory = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(fd), 0);
	return memory == MAP_FAILED ? NULL : memory;
}

/* The kernel handles each message in a signal before write() returns. Handling one ends its grant of time. */
static void deliver_calls(volatile char *memory)
{
	volatile uint64_t *calls = (volatile uint64_t *)(memory + CALLS_AT);
	for (int queue = 0; queue < 2 * DEVICES_MAX; queue++) {
		if (!(calls[queue / 64] >> queue % 64 & 1)) continue;
		uint32_t call[5] = { VRING_CALL, VERSION, 8, queue % 2, 0 };
		if (write(call_sockets[queue / 2], call, sizeof call) != sizeof call) abort();
	}
	calls[0] = calls[1] = 0;
	*(volatile uint64_t *)(memory + FREE_UNTIL_AT) = *(volatile uint64_t *)(memory + THEN_FREE_UNTIL_AT);
}

/* Whether the kernel wants to run now. It does not after a call for a device whose interrupt it has put off. */
static int wants_to_run(volatile char *memory)
{
	return *(volatile uint32_t *)(memory + FLAGS_AT) & REQUESTS_RUN &&
	       *(volatile uint64_t *)(memory + REQUEST_AT) == *(volatile uint64_t *)(memory + NOW_AT);
}

/* Takes the message that lets the kernel run, and tells the simulator that it waits. */
static void wait_on(int fd)
{
	uint32_t message[4];
	if (read(fd, message, sizeof message) != sizeof message) return;
	memset(message, 0, sizeof message);
	message[0] = WAIT;
	if (write(fd, message, sizeof message) != sizeof message) abort();
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	for (;;) {
		int ready = syscall(SYS_poll, fds, count, timeout);
		volatile char *memory = ready > 0 && count == 1 && fds->fd == time_socket ? shared_time() : NULL;
		if (!memory || !(*(volatile uint64_t *)(memory + CALLS_AT) | *(volatile uint64_t *)(memory + CALLS_AT + 8)))
			return ready;
		deliver_calls(memory);
		if (wants_to_run(memory)) return ready;
		wait_on(fds->fd);
	}
}
