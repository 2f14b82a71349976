/* The agent of pauseframe inside a user-mode kernel: its first process.
 *
 * It sets up the hosts (network namespaces), then opens and closes connections as the simulator orders, and reports what happens to
 * them. Orders and reports are Ethernet frames on the first network card, so they happen at exact simulated times. One loop serves
 * all hosts; it enters the namespace of a host to create a socket there. Threads move bulk data: each blocks in one system call for
 * many packets, since a system call costs a user-mode kernel as much as ten packets.
 *
 * A system call that fails takes 1 us of simulated time, in which the kernel does nothing else (arch/um/kernel/skas/syscall.c).
 * EAGAIN and EINPROGRESS count as failures. So the agent asks for no more than the kernel has, and threads wait in connect().
 *
 * Files in /run/pauseframe (the folder of the run): setup.sh creates the namespaces; "hosts" and "transports" name them and the
 * congestion controls, one a line, by number; "programs" has lines "HOST<tab>COMMAND"; "samples" is written here.
 * crates/kernel/src/control.rs and samples.rs are the other side.
 */
#include "agent.h"

#include <linux/if_packet.h>
#include <linux/random.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#define UP "../../../../../../../../../../../.."

int ep, timer_fd, signal_fd, bulk_fd;
static int control_fd;
#define FRAMES_MAX 256 /* as many as the card has buffers */
static struct frame outgoing;

void die(const char *what)
{
	fprintf(stderr, "pauseframe agent: %s: %s\n", what, strerror(errno));
	fflush(stderr);
	/* The kernel panics as its first process ends, and the simulator shows this line. */
	exit(1);
}

/* ---------- reports ---------- */

static void flush_reports(void)
{
	if (!outgoing.count) return;
	size_t size = 16 + outgoing.count * sizeof(struct message);
	memset(outgoing.to, 0xff, 6);
	outgoing.type = htons(CONTROL_TYPE);
	if (send(control_fd, &outgoing, size < 60 ? 60 : size, 0) < 0) die("report");
	outgoing.count = 0;
}

struct message *report(enum report op, uint32_t address)
{
	if (outgoing.count == MESSAGES_MAX) flush_reports();
	struct message *m = &outgoing.messages[outgoing.count++];
	memset(m, 0, sizeof *m);
	m->op = op;
	m->address = address;
	return m;
}

/* ---------- hosts ---------- */

char *host_names[NAMES_MAX], *transports[NAMES_MAX], *small_segments[NAMES_MAX];
static int host_fds[NAMES_MAX];
int hosts;

static int read_names(const char *file, char **names)
{
	char line[512];
	int count = 0;
	FILE *f = fopen(file, "r");
	if (!f) die(file);
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		if (count == NAMES_MAX) die("too many names");
		names[count++] = strdup(line);
	}
	fclose(f);
	return count;
}

/* Lines "CONTROL HOW": how a last, small segment is sent. */
static void read_transports(void)
{
	int count = read_names(RUN "/transports", transports);
	for (int i = 0; i < count; i++) {
		char *how = strchr(transports[i], ' ');
		if (!how) die("transports");
		*how++ = 0;
		small_segments[i] = how;
	}
}

void enter(int host)
{
	static int current = -1;
	if (current == host) return;
	if (setns(host_fds[host], CLONE_NEWNET)) die("setns");
	current = host;
}

/* ---------- orders ---------- */

static void carry_out(const struct message *m)
{
	struct conn *c = find(m->address);
	switch (m->op) {
	case OPEN:
		open_conn(m);
		return;
	case BEGIN:
		start_programs();
		return;
	case SAMPLE:
		sample(m->v[0]);
		return;
	case COUNT_ALL:
		for (int i = 0; i < BUCKETS; i++)
			for (c = buckets[i]; c; c = c->next) report_counts(c);
		close_samples();
		report(COUNTED_ALL, 0);
		return;
	}
	if (!c || c->failed) {
		if (c && m->op == FREE) free_conn(c);
		return;
	}
	switch (m->op) {
	case CONTINUE:
		report_counts(c);
		begin(c, m);
		c->writes += m->v[0];
		pump(c);
		break;
	case END_EXCHANGE:
		report_counts(c);
		c->has_flow = 0;
		break;
	case STOP:
		c->stopped = 1;
		c->writes = c->written;
		stop_bulk(c->writer);
		/* fall through */
	case CLOSE:
		c->closing = 1;
		pump(c);
		break;
	case FREE:
		free_conn(c);
		break;
	default:
		die("an unknown order");
	}
}

/* All orders that have come; epoll reports again what does not fit. */
static void on_control(void)
{
	static struct frame frames[FRAMES_MAX];
	struct mmsghdr headers[FRAMES_MAX];
	struct iovec parts[FRAMES_MAX];
	for (int i = 0; i < FRAMES_MAX; i++) {
		parts[i] = (struct iovec){ &frames[i], sizeof frames[i] };
		headers[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &parts[i], .msg_iovlen = 1 } };
	}
	int count = recvmmsg(control_fd, headers, FRAMES_MAX, MSG_DONTWAIT, NULL);
	for (int i = 0; i < count; i++) {
		if (headers[i].msg_len < 16 || frames[i].count > MESSAGES_MAX) die("a broken order");
		for (int j = 0; j < frames[i].count; j++) carry_out(&frames[i].messages[j]);
	}
}

/* ---------- start ---------- */

static void mounts(void)
{
	static const char *const tables[][3] = {
		{ "hostfs", "/host", UP },        { "proc", "/host/proc", "" },  { "sysfs", "/host/sys", "" },
		{ "devtmpfs", "/host/dev", "" },  { "tmpfs", "/host/run", "" },
	};
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (mount("none", tables[i][1], tables[i][0], 0, tables[i][2])) die(tables[i][1]);
	mkdir("/host" RUN, 0755);
	mkdir("/host/run/netns", 0755);
	if (mount("none", "/host" RUN, "hostfs", 0, "")) die(RUN);
	if (chroot("/host") || chdir("/")) die("chroot");
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	/* Programs find hosts by name. */
	mount(RUN "/etc-hosts", "/etc/hosts", NULL, MS_BIND, NULL);
}

/* The seed from outside (shim.c) counts as random: programs that want random numbers need not wait. */
static void credit_seed(void)
{
	struct { int bits, size; uint8_t bytes[32]; } seed = { 256, 32, { 0 } };
	int fd = open("/dev/random", O_RDWR | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, RNDADDENTROPY, &seed)) die("/dev/random");
	close(fd);
}

static void open_control(void)
{
	struct ifreq r = { .ifr_name = "eth0" };
	control_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(CONTROL_TYPE));
	if (control_fd < 0) die("control socket");
	if (ioctl(control_fd, SIOCGIFFLAGS, &r)) die("control device");
	r.ifr_flags |= IFF_UP | IFF_NOARP;
	if (ioctl(control_fd, SIOCSIFFLAGS, &r)) die("control device up");
	struct sockaddr_ll a = { .sll_family = AF_PACKET, .sll_protocol = htons(CONTROL_TYPE) };
	a.sll_ifindex = if_nametoindex("eth0");
	if (bind(control_fd, (void *)&a, sizeof a)) die("control bind");
	int size = 16 << 20;
	setsockopt(control_fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
	setsockopt(control_fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
}

int main(void)
{
	setvbuf(stderr, NULL, _IOLBF, 0);
	mounts();
	credit_seed();
	struct rlimit files = { 1 << 20, 1 << 20 };
	setrlimit(RLIMIT_NOFILE, &files);
	open_control();
	if (system("sh " RUN "/setup.sh > " RUN "/setup.log 2>&1")) {
		fprintf(stderr, "pauseframe agent: setup.sh failed:\n");
		if (system("tail -n 15 " RUN "/setup.log >&2")) {}
		exit(1);
	}
	hosts = read_names(RUN "/hosts", host_names);
	read_transports();
	for (int i = 0; i < hosts; i++) {
		char path[300];
		snprintf(path, sizeof path, "/run/netns/%s", host_names[i]);
		host_fds[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (host_fds[i] < 0) die(path);
	}
	ep = epoll_create1(EPOLL_CLOEXEC);
	bulk_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct sigaction interrupt = { .sa_handler = on_interrupt };
	sigaction(SIGUSR1, &interrupt, NULL);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signal_fd = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
	watch(control_fd, &control_fd, EPOLLIN);
	watch(timer_fd, &timer_fd, EPOLLIN);
	watch(bulk_fd, &bulk_fd, EPOLLIN);
	watch(signal_fd, &signal_fd, EPOLLIN);
	report(READY, 0);
	flush_reports();
	for (;;) {
		struct epoll_event events[64];
		int n = epoll_wait(ep, events, 64, -1);
		if (n < 0 && errno != EINTR) die("epoll_wait");
		for (int i = 0; i < n; i++) {
			void *of = events[i].data.ptr;
			if (of == &control_fd) on_control();
			else if (of == &timer_fd) on_timer();
			else if (of == &bulk_fd) on_bulk();
			else if (of == &signal_fd) on_child();
			else if (*(enum kind *)of == LISTENER) on_listener(of);
			else on_conn(of, events[i].events);
		}
		flush_reports();
	}
}
