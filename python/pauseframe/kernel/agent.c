/* The agent of pauseframe inside a user-mode kernel: its first process.
 *
 * It sets up the hosts (network namespaces), then opens and closes connections as the simulator orders, and reports what happens to
 * them. Orders and reports are Ethernet frames on the first network card, so they happen at exact simulated times. One loop serves
 * all hosts; it enters the namespace of a host to create a socket there. Threads move bulk data: each blocks in one system call for
 * many packets, since a system call costs a user-mode kernel as much as ten packets.
 *
 * Files in /run/pauseframe (the folder of the run): setup.sh creates the namespaces; "hosts" and "transports" name them and the
 * congestion controls, one a line, by number; "programs" has lines "HOST<tab>COMMAND"; "samples" is written here.
 * crates/kernel/src/control.rs and samples.rs are the other side.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/random.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUN "/run/pauseframe"
#define CONTROL_TYPE 0x88b5 /* IEEE 802: local experimental */
#define UP "../../../../../../../../../../../.."

enum order { OPEN = 1, CONTINUE, END_EXCHANGE, CLOSE, STOP, FREE, BEGIN, COUNT_ALL, SAMPLE };
enum report { READY = 64, FAILED_SETUP, CONNECTED, COMPLETE, FAILED, DRAINED, COUNTED, PROGRAM_ENDED, COUNTED_ALL };

struct message {
	uint8_t op, side;
	uint16_t host;
	uint32_t address;
	uint64_t v[7];
} __attribute__((packed));

#define MESSAGES_MAX 22
struct frame {
	uint8_t to[6], from[6];
	uint16_t type, count;
	struct message messages[MESSAGES_MAX];
} __attribute__((packed));

static int ep, control_fd, timer_fd, signal_fd, bulk_fd;
static struct frame outgoing;

static void die(const char *what)
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

static struct message *report(enum report op, uint32_t address)
{
	if (outgoing.count == MESSAGES_MAX) flush_reports();
	struct message *m = &outgoing.messages[outgoing.count++];
	memset(m, 0, sizeof *m);
	m->op = op;
	m->address = address;
	return m;
}

/* ---------- hosts ---------- */

#define NAMES_MAX 256
static char *host_names[NAMES_MAX], *transports[NAMES_MAX];
static int host_fds[NAMES_MAX], hosts;

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

static void enter(int host)
{
	static int current = -1;
	if (current == host) return;
	if (setns(host_fds[host], CLONE_NEWNET)) die("setns");
	current = host;
}

/* ---------- timers: a heap by time ---------- */

struct conn;
struct timer { uint64_t at, order; struct conn *conn; uint32_t generation; };
static struct timer *heap;
static int heap_len, heap_cap;
static uint64_t timers_made;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}
static int before(int a, int b)
{
	return heap[a].at != heap[b].at ? heap[a].at < heap[b].at : heap[a].order < heap[b].order;
}
static void swap(int a, int b) { struct timer t = heap[a]; heap[a] = heap[b]; heap[b] = t; }
static void arm(void)
{
	struct itimerspec t = { 0 };
	if (heap_len) {
		t.it_value.tv_sec = heap[0].at / 1000000000;
		t.it_value.tv_nsec = heap[0].at % 1000000000;
	}
	timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}
static void add_timer(uint64_t at, struct conn *conn, uint32_t generation)
{
	if (heap_len == heap_cap) {
		heap_cap = heap_cap ? 2 * heap_cap : 64;
		heap = realloc(heap, heap_cap * sizeof *heap);
		if (!heap) die("memory");
	}
	int i = heap_len++;
	heap[i] = (struct timer){ at, timers_made++, conn, generation };
	for (; i && before(i, (i - 1) / 2); i = (i - 1) / 2) swap(i, (i - 1) / 2);
	if (!i) arm();
}
static struct timer pop_timer(void)
{
	struct timer t = heap[0];
	heap[0] = heap[--heap_len];
	for (int i = 0;;) {
		int l = 2 * i + 1;
		if (l >= heap_len) break;
		if (l + 1 < heap_len && before(l + 1, l)) l++;
		if (!before(l, i)) break;
		swap(i, l);
		i = l;
	}
	return t;
}

/* ---------- connections, by address (flow * 2 + side) ---------- */

enum kind { LISTENER, CONN };
struct bulk;
struct listener { enum kind kind; int fd, host; uint16_t port; struct listener *next; };
struct conn {
	enum kind kind;
	int fd, host, side, transport;
	uint32_t address, flow, generation;
	int has_flow, closing, drained, connected, failed, stopped, freed;
	int reads;                          /* of the loop, since the application waits for bytes */
	struct bulk *reader, *writer;       /* threads that move its data */
	uint64_t writes, written;           /* bytes to write in all, and written */
	uint64_t delivered, expects;        /* bytes read in all, and those the application waits for */
	uint64_t reply, reply_delay, late;  /* what it answers, and what a timer will write */
	uint64_t told_delivered, told_retrans, told_rto;
	struct conn *next;                  /* in its bucket */
};

#define BUCKETS 65536
static struct conn *buckets[BUCKETS];
static struct listener *listeners;
static char zeros[1 << 18];

static struct conn *find(uint32_t address)
{
	struct conn *c = buckets[address % BUCKETS];
	while (c && c->address != address) c = c->next;
	return c;
}

static void watch(int fd, void *of, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = of };
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e)) die("epoll_ctl");
}

static void set_blocking(int fd, int blocks)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK)) die("fcntl");
}

static int make_socket(int host, int transport, uint16_t port)
{
	enter(host);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	if (fd < 0) die("socket");
	const char *cc = transports[transport];
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc))) die(cc);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	if (bind(fd, (void *)&a, sizeof a)) die("bind");
	return fd;
}

static void listen_at(int host, int transport, uint16_t port)
{
	for (struct listener *l = listeners; l; l = l->next)
		if (l->host == host && l->port == port) return;
	struct listener *l = calloc(1, sizeof *l);
	l->kind = LISTENER;
	l->host = host;
	l->port = port;
	l->fd = make_socket(host, transport, port);
	if (listen(l->fd, 65535)) die("listen");
	set_blocking(l->fd, 0);
	l->next = listeners;
	listeners = l;
	watch(l->fd, l, EPOLLIN | EPOLLET);
}

/* Fields of the kernel's TCP_INFO that the C library does not know. What it has at its end depends on its version. */
#define BYTES_RECEIVED_AT 128
#define TOTAL_RTO_AT 240
static void counts(struct conn *c, uint64_t *delivered, uint64_t *retrans, uint64_t *rto)
{
	union { struct tcp_info info; uint8_t bytes[512]; } u;
	socklen_t len = sizeof u;
	int unread = 0;
	*delivered = c->delivered;
	*retrans = c->told_retrans;
	*rto = c->told_rto;
	memset(&u, 0, sizeof u);
	if (c->fd < 0 || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &u, &len)) return;
	*retrans = u.info.tcpi_total_retrans;
	if (c->reader && !ioctl(c->fd, SIOCINQ, &unread))
		*delivered = *(uint64_t *)(u.bytes + BYTES_RECEIVED_AT) - unread;
	if (len >= TOTAL_RTO_AT + 2) *rto = u.bytes[TOTAL_RTO_AT] | u.bytes[TOTAL_RTO_AT + 1] << 8;
}

static void report_counts(struct conn *c)
{
	uint64_t delivered, retrans, rto;
	if (!c->has_flow) return;
	counts(c, &delivered, &retrans, &rto);
	struct message *m = report(COUNTED, c->address);
	m->v[0] = c->flow;
	m->v[1] = delivered - c->told_delivered;
	m->v[2] = retrans - c->told_retrans;
	m->v[3] = rto - c->told_rto;
	c->told_delivered = delivered;
	c->told_retrans = retrans;
	c->told_rto = rto;
}

static void fail(struct conn *c, int error)
{
	if (c->failed) return;
	c->failed = 1;
	report_counts(c);
	report(FAILED, c->address)->v[0] = error;
}

static void check_drained(struct conn *c)
{
	struct tcp_info info;
	socklen_t len = sizeof info;
	if (!c->closing || c->drained || c->fd < 0) return;
	memset(&info, 0, sizeof info);
	if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len)) die("TCP_INFO");
	if (info.tcpi_state == TCP_CLOSE) {
		c->drained = 1;
		report(DRAINED, c->address);
	}
}

/* ---------- threads that move bulk data ---------- */

#define BULKS_MAX 1024
#define BULK_MIN (1 << 18)
/* A connection whose bytes came in so many parts has the rest read by a thread. */
#define READS_MAX 4
struct bulk {
	struct conn *conn;
	int is_writer, error;
	uint64_t amount, moved;
	pthread_t thread;
	struct bulk *next;
};
static int bulk_count;
static struct bulk *ended_bulks;
static pthread_mutex_t bulk_lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t move_part(const struct bulk *b, uint64_t left)
{
	if (b->is_writer) return send(b->conn->fd, zeros, left < sizeof zeros ? left : sizeof zeros, MSG_NOSIGNAL);
	return recv(b->conn->fd, zeros, left < 1 << 30 ? left : 1 << 30, MSG_TRUNC | MSG_WAITALL);
}

static void *move_bulk(void *of)
{
	struct bulk *b = of;
	while (b->moved < b->amount) {
		ssize_t n = move_part(b, b->amount - b->moved);
		if (n <= 0) {
			b->error = n ? errno : 0;
			break;
		}
		b->moved += n;
	}
	pthread_mutex_lock(&bulk_lock);
	b->next = ended_bulks;
	ended_bulks = b;
	pthread_mutex_unlock(&bulk_lock);
	uint64_t one = 1;
	if (write(bulk_fd, &one, sizeof one) < 0) die("eventfd");
	return NULL;
}

static void watch_rest(struct conn *c)
{
	struct epoll_event e = { .events = EPOLLET, .data.ptr = c };
	if (!c->reader) e.events |= EPOLLIN;
	if (!c->writer) e.events |= EPOLLOUT;
	if (epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e)) die("epoll_ctl");
}

/* True if a thread moves this much from now on. */
static int start_bulk(struct conn *c, int is_writer, uint64_t amount)
{
	if (amount < BULK_MIN || bulk_count == BULKS_MAX) return 0;
	struct bulk *b = calloc(1, sizeof *b);
	if (!b) die("memory");
	b->conn = c;
	b->is_writer = is_writer;
	b->amount = amount;
	if (is_writer) c->writer = b;
	else c->reader = b;
	set_blocking(c->fd, 1);
	watch_rest(c);
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if ((errno = pthread_create(&b->thread, &attributes, move_bulk, b))) die("thread");
	bulk_count++;
	return 1;
}

static void on_interrupt(int signal) { (void)signal; }

/* A thread that is about to make its system call returns from it as well. */
static void stop_bulk(struct bulk *b)
{
	if (!b) return;
	set_blocking(b->conn->fd, 0);
	pthread_kill(b->thread, SIGUSR1);
}

static void pump(struct conn *c)
{
	while (c->fd >= 0 && c->connected && !c->writer && c->written < c->writes) {
		uint64_t left = c->writes - c->written;
		ssize_t n = send(c->fd, zeros, left < sizeof zeros ? left : sizeof zeros, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0) {
			if (errno == EAGAIN) {
				start_bulk(c, 1, left);
				return;
			}
			fail(c, errno);
			return;
		}
		c->written += n;
	}
	if (c->closing == 1 && c->fd >= 0 && c->connected && !c->writer && c->written >= c->writes) {
		c->closing = 2;
		shutdown(c->fd, SHUT_WR);
		check_drained(c);
	}
}

static void on_expected(struct conn *c)
{
	uint64_t reply = c->reply;
	c->expects = UINT64_MAX;
	c->reads = 0;
	c->reply = 0;
	if (!reply) {
		report(COMPLETE, c->address);
	} else if (c->reply_delay) {
		c->late = reply;
		add_timer(now() + c->reply_delay, c, ++c->generation);
	} else {
		c->writes += reply;
		pump(c);
	}
}

static void drain(struct conn *c)
{
	while (!c->reader) {
		/* The bytes are discarded in the kernel. */
		ssize_t n = recv(c->fd, zeros, 1 << 30, MSG_TRUNC | MSG_DONTWAIT);
		if (n < 0) {
			if (errno != EAGAIN) fail(c, errno);
			else if (++c->reads > READS_MAX) start_bulk(c, 0, c->expects - c->delivered);
			break;
		}
		if (!n) break;
		c->delivered += n;
		if (c->delivered >= c->expects) on_expected(c);
	}
}

static void on_conn(struct conn *c, uint32_t events)
{
	if (c->fd < 0) return;
	if (!c->connected && events & (EPOLLERR | EPOLLHUP)) {
		int error = 0;
		socklen_t len = sizeof error;
		getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);
		fail(c, error);
		return;
	}
	if (!c->connected && events & EPOLLOUT) {
		c->connected = 1;
		report(CONNECTED, c->address);
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) drain(c);
	if (events & EPOLLOUT) pump(c);
	check_drained(c);
}

static void begin(struct conn *c, const struct message *m)
{
	uint64_t delivered, retrans, rto;
	counts(c, &delivered, &retrans, &rto);
	c->flow = m->v[6];
	c->has_flow = 1;
	c->expects = m->v[1] == UINT64_MAX ? UINT64_MAX : delivered + m->v[1];
	c->reads = 0;
	/* It reads on for what the application waits for now. */
	stop_bulk(c->reader);
	c->reply = m->v[2];
	c->reply_delay = m->v[3];
}

static void open_conn(const struct message *m)
{
	struct conn *c = calloc(1, sizeof *c);
	if (!c) die("memory");
	uint32_t peer = m->v[4] >> 32;
	uint16_t client = m->v[4] >> 16, server = m->v[4];
	c->kind = CONN;
	c->fd = -1;
	c->host = m->host;
	c->side = m->side;
	c->address = m->address;
	c->transport = m->v[5] & 0xffff;
	begin(c, m);
	c->next = buckets[c->address % BUCKETS];
	buckets[c->address % BUCKETS] = c;
	if (c->side) {
		listen_at(c->host, c->transport, server);
		return;
	}
	uint64_t delay = m->v[5] >> 16;
	if (delay) {
		c->late = m->v[0];
		add_timer(now() + delay, c, ++c->generation);
	} else {
		c->writes = m->v[0];
	}
	c->fd = make_socket(c->host, c->transport, client);
	set_blocking(c->fd, 0);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(server), .sin_addr.s_addr = htonl(peer) };
	if (connect(c->fd, (void *)&a, sizeof a) && errno != EINPROGRESS) {
		fail(c, errno);
		return;
	}
	watch(c->fd, c, EPOLLIN | EPOLLOUT | EPOLLET);
}

/* The ports of a connection say which flow opened it: crates/kernel/src/control.rs. */
static void on_listener(struct listener *l)
{
	struct sockaddr_in a;
	for (;;) {
		socklen_t len = sizeof a;
		int fd = accept4(l->fd, (void *)&a, &len, SOCK_CLOEXEC), one = 1;
		if (fd < 0) return;
		uint32_t flow = (l->port % 100) * 60000 + (ntohs(a.sin_port) - 1024);
		struct conn *c = find(flow * 2 + 1);
		if (!c || c->fd >= 0) {
			close(fd);
			continue;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		c->fd = fd;
		c->connected = 1;
		watch(fd, c, EPOLLIN | EPOLLOUT | EPOLLET);
	}
}

static void close_conn(struct conn *c)
{
	if (c->fd >= 0) close(c->fd);
	c->fd = -1;
}

/* What threads have moved, in the order of their ends. */
static void on_bulk(void)
{
	uint64_t count;
	if (read(bulk_fd, &count, sizeof count) < 0 && errno != EAGAIN) die("eventfd");
	pthread_mutex_lock(&bulk_lock);
	struct bulk *last = ended_bulks, *first = NULL;
	ended_bulks = NULL;
	pthread_mutex_unlock(&bulk_lock);
	while (last) {
		struct bulk *next = last->next;
		last->next = first;
		first = last;
		last = next;
	}
	while (first) {
		struct bulk *b = first;
		struct conn *c = b->conn;
		first = b->next;
		bulk_count--;
		if (b->is_writer) {
			c->writer = NULL;
			c->written += b->moved;
			if (c->stopped) c->writes = c->written;
		} else {
			c->reader = NULL;
			c->reads = 0;
			c->delivered += b->moved;
		}
		int error = b->error;
		free(b);
		if (c->freed) {
			if (!c->reader && !c->writer) close_conn(c);
			continue;
		}
		if (error && error != EINTR && error != EAGAIN) fail(c, error);
		watch_rest(c);
		if (c->delivered >= c->expects) on_expected(c);
		drain(c);
		pump(c);
		check_drained(c);
	}
}

static void free_conn(struct conn *c)
{
	report_counts(c);
	c->freed = 1;
	stop_bulk(c->reader);
	stop_bulk(c->writer);
	if (!c->reader && !c->writer) close_conn(c);
	c->generation++;
	struct conn **at = &buckets[c->address % BUCKETS];
	while (*at != c) at = &(*at)->next;
	*at = c->next;
	/* Events and timers that name it may still be on their way: its memory stays. */
}

static void on_timer(void)
{
	uint64_t ticks;
	if (read(timer_fd, &ticks, sizeof ticks) < 0 && errno != EAGAIN) die("timer");
	while (heap_len && heap[0].at <= now()) {
		struct timer t = pop_timer();
		if (t.conn->generation != t.generation) continue;
		t.conn->writes += t.conn->late;
		t.conn->late = 0;
		pump(t.conn);
	}
	arm();
}

/* ---------- programs of the user ---------- */

#define PROGRAMS_MAX 256
static pid_t programs[PROGRAMS_MAX];
static int program_count;

static void start_program(char *host, const char *command, int number)
{
	int h = 0;
	while (h < hosts && strcmp(host_names[h], host)) h++;
	if (h == hosts) die(host);
	pid_t pid = fork();
	if (pid < 0) die("fork");
	if (pid) {
		programs[number] = pid;
		return;
	}
	char file[256];
	snprintf(file, sizeof file, RUN "/program-%d.log", number);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	enter(h);
	int out = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	int in = open("/dev/null", O_RDONLY);
	if (out < 0 || in < 0) die(file);
	dup2(in, 0);
	dup2(out, 1);
	dup2(out, 2);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	die("/bin/sh");
}

static void start_programs(void)
{
	char line[4096];
	FILE *f = fopen(RUN "/programs", "r");
	if (!f) return;
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		char *command = strchr(line, '\t');
		if (!command || program_count == PROGRAMS_MAX) die("programs");
		*command++ = 0;
		start_program(line, command, program_count++);
	}
	fclose(f);
}

static void on_child(void)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;
	while (read(signal_fd, &info, sizeof info) > 0) {}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < program_count; i++)
			if (programs[i] == pid) {
				struct message *m = report(PROGRAM_ENDED, i);
				m->v[0] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
			}
}

/* ---------- samples of sockets and counters, as lines of a file ---------- */

#define COUNTERS_MAX 1024
#define STATES (0xfff & ~(1 << TCP_LISTEN | 1 << TCP_TIME_WAIT | 1 << TCP_CLOSE))
/* struct tcp_dctcp_info: u16 enabled, u16 ce_state, u32 alpha */
#define ALPHA_AT 4
static FILE *samples;
static int diag_fds[NAMES_MAX], counter_fds[NAMES_MAX][2];
static uint64_t *last_counters[NAMES_MAX];

static void open_samples(void)
{
	static const char *const files[] = { "/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat" };
	if (!samples && !(samples = fopen(RUN "/samples", "a"))) die("samples");
	for (int h = 0; h < hosts && !last_counters[h]; h++) {
		enter(h);
		diag_fds[h] = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
		if (diag_fds[h] < 0) die("socket diagnostics");
		for (int i = 0; i < 2; i++)
			if ((counter_fds[h][i] = open(files[i], O_RDONLY | O_CLOEXEC)) < 0) die(files[i]);
		last_counters[h] = calloc(2 * COUNTERS_MAX, sizeof(uint64_t));
	}
}

/* Pairs of lines: "Group: names" and "Group: values". A counter has a line if it has changed. */
static void sample_counters(int host, int file, uint64_t time)
{
	static char text[1 << 16];
	uint64_t *last = last_counters[host] + file * COUNTERS_MAX;
	ssize_t len = pread(counter_fds[host][file], text, sizeof text - 1, 0);
	if (len < 0) die("counters");
	text[len] = 0;
	int number = 0;
	char *line, *rest = text;
	while ((line = strsep(&rest, "\n")) && rest) {
		char *values = strsep(&rest, "\n"), *name;
		char *group = strsep(&line, ":");
		strsep(&values, ":");
		if (!line || !values) break;
		strsep(&line, " ");
		strsep(&values, " ");
		while ((name = strsep(&line, " ")) && values && number < COUNTERS_MAX) {
			uint64_t value = strtoull(strsep(&values, " "), NULL, 10);
			if (value != last[number])
				fprintf(samples, "c\t%llu\t%d\t%s%s\t%llu\n", (unsigned long long)time, host, group, name,
					(unsigned long long)value);
			last[number++] = value;
		}
	}
}

static void sample_socket(int host, uint64_t time, const struct inet_diag_msg *m, int len)
{
	union { struct tcp_info info; uint8_t bytes[512]; uint64_t words[64]; } u = { 0 };
	const char *cc = "-";
	uint32_t alpha = UINT32_MAX;
	len -= NLMSG_ALIGN(sizeof *m);
	for (struct nlattr *a = (void *)((char *)m + NLMSG_ALIGN(sizeof *m)); len >= (int)sizeof *a && a->nla_len;
	     len -= NLA_ALIGN(a->nla_len), a = (void *)((char *)a + NLA_ALIGN(a->nla_len))) {
		const char *data = (char *)a + NLA_HDRLEN;
		size_t size = a->nla_len - NLA_HDRLEN;
		if (a->nla_type == INET_DIAG_INFO) memcpy(&u, data, size < sizeof u ? size : sizeof u);
		else if (a->nla_type == INET_DIAG_CONG) cc = data;
		else if (a->nla_type == INET_DIAG_DCTCPINFO && *(uint16_t *)data) memcpy(&alpha, data + ALPHA_AT, 4);
	}
	fprintf(samples, "s\t%llu\t%d\t%u\t%u\t%u\t%u\t%s\t%u\t%u\t%u\t%u\t%u\t%u\t%u\t%u\t%u\t%llu\t%llu\t%u\t%d\n",
		(unsigned long long)time, host, ntohs(m->id.idiag_sport), ntohl(m->id.idiag_dst[0]), ntohs(m->id.idiag_dport),
		m->idiag_state, cc, u.info.tcpi_snd_cwnd, u.info.tcpi_snd_ssthresh, u.info.tcpi_snd_mss, u.info.tcpi_rtt,
		u.info.tcpi_rttvar, u.info.tcpi_rto, u.info.tcpi_unacked, u.info.tcpi_total_retrans, u.info.tcpi_ca_state,
		(unsigned long long)u.words[BYTES_RECEIVED_AT / 8 - 1], (unsigned long long)u.words[BYTES_RECEIVED_AT / 8],
		m->idiag_wqueue, (int)alpha);
}

static void sample_sockets(int host, uint64_t time)
{
	static char buffer[1 << 16] __attribute__((aligned(8)));
	struct { struct nlmsghdr header; struct inet_diag_req_v2 diag; } request = {
		.header = { sizeof request, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0 },
		.diag = { .sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = STATES,
			  .idiag_ext = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1) | 1 << (INET_DIAG_CONG - 1) },
	};
	if (send(diag_fds[host], &request, sizeof request, 0) < 0) die("socket diagnostics");
	for (;;) {
		int len = recv(diag_fds[host], buffer, sizeof buffer, 0);
		if (len <= 0) die("socket diagnostics");
		for (struct nlmsghdr *h = (void *)buffer; NLMSG_OK(h, (unsigned)len); h = NLMSG_NEXT(h, len)) {
			if (h->nlmsg_type == NLMSG_DONE) return;
			if (h->nlmsg_type == NLMSG_ERROR) die("socket diagnostics");
			sample_socket(host, time, NLMSG_DATA(h), h->nlmsg_len - NLMSG_HDRLEN);
		}
	}
}

static void sample(uint64_t time)
{
	open_samples();
	for (int h = 0; h < hosts; h++) {
		sample_sockets(h, time);
		for (int i = 0; i < 2; i++) sample_counters(h, i, time);
	}
}

/* The file system of the computer has what was written once it is closed. */
static void close_samples(void)
{
	if (samples) fclose(samples);
	samples = NULL;
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

static void on_control(void)
{
	struct frame f;
	ssize_t n;
	while ((n = recv(control_fd, &f, sizeof f, MSG_DONTWAIT)) > 0) {
		if (n < 16 || f.count > MESSAGES_MAX) die("a broken order");
		for (int i = 0; i < f.count; i++) carry_out(&f.messages[i]);
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
	read_names(RUN "/transports", transports);
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
