/* Connections, by address (flow * 2 + side). */
#include "agent.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

struct conn *buckets[BUCKETS];
static struct listener *listeners;
/* A connection whose bytes came in so many parts has the rest read by a thread. */
#define READS_MAX 4
char zeros[ZEROS];
/* A write has up to so many parts, so it seldom ends exactly where the socket is full. */
#define PARTS_MAX 16

struct conn *find(uint32_t address)
{
	struct conn *c = buckets[address % BUCKETS];
	while (c && c->address != address) c = c->next;
	return c;
}

void watch(int fd, void *of, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = of };
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e)) die("epoll_ctl");
}

void set_blocking(int fd, int blocks)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK)) die("fcntl");
}

static void set_small_segments(int fd, int transport)
{
	int at_once = !strcmp(small_segments[transport], "at_once"), cork = !strcmp(small_segments[transport], "cork");
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once)) die("TCP_NODELAY");
	if (setsockopt(fd, IPPROTO_TCP, TCP_CORK, &cork, sizeof cork)) die("TCP_CORK");
}

static int make_socket(int host, int transport, uint16_t port)
{
	enter(host);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	if (fd < 0) die("socket");
	const char *cc = transports[transport];
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc))) die(cc);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	set_small_segments(fd, transport);
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

void report_counts(struct conn *c)
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

void fail(struct conn *c, int error)
{
	if (c->failed) return;
	c->failed = 1;
	report_counts(c);
	report(FAILED, c->address)->v[0] = error;
}

void check_drained(struct conn *c)
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

/* Writes what the socket takes at once, up to `left`. */
static ssize_t write_part(int fd, uint64_t left, uint64_t *asked)
{
	struct iovec parts[PARTS_MAX];
	struct msghdr header = { .msg_iov = parts };
	for (*asked = 0; *asked < left && header.msg_iovlen < PARTS_MAX; header.msg_iovlen++) {
		size_t size = left - *asked < ZEROS ? left - *asked : ZEROS;
		parts[header.msg_iovlen] = (struct iovec){ zeros, size };
		*asked += size;
	}
	return sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void pump(struct conn *c)
{
	while (c->fd >= 0 && c->connected && !c->writer && !c->full && c->written < c->writes) {
		uint64_t asked, left = c->writes - c->written;
		ssize_t n = write_part(c->fd, left, &asked);
		if (n < 0 && errno != EAGAIN) {
			fail(c, errno);
			return;
		}
		if (n > 0) c->written += n;
		if (n < (ssize_t)asked) {
			c->full = 1;
			start_bulk(c, 1, c->writes - c->written);
		}
	}
	if (c->closing == 1 && c->fd >= 0 && c->connected && !c->writer && c->written >= c->writes) {
		c->closing = 2;
		shutdown(c->fd, SHUT_WR);
		check_drained(c);
	}
}

void on_expected(struct conn *c)
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

/* One call takes all that the socket has; its bytes are discarded in the kernel. */
void drain(struct conn *c)
{
	if (c->reader) return;
	ssize_t n = recv(c->fd, zeros, 1 << 30, MSG_TRUNC | MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN) fail(c, errno);
	if (n <= 0) return;
	c->delivered += n;
	if (c->delivered >= c->expects) on_expected(c);
	if (++c->reads > READS_MAX) start_bulk(c, 0, c->expects - c->delivered);
}

void on_conn(struct conn *c, uint32_t events)
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
	if (events & EPOLLOUT) {
		c->full = 0;
		pump(c);
	}
	check_drained(c);
}

/* Its thread has opened it. */
void on_connected(struct conn *c)
{
	c->connected = 1;
	report(CONNECTED, c->address);
	set_blocking(c->fd, 0);
	watch(c->fd, c, EPOLLIN | EPOLLOUT | EPOLLET);
}

void begin(struct conn *c, const struct message *m)
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

void open_conn(const struct message *m)
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
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(server), .sin_addr.s_addr = htonl(peer) };
	if (start_connect(c, &a)) return;
	set_blocking(c->fd, 0);
	if (connect(c->fd, (void *)&a, sizeof a) && errno != EINPROGRESS) {
		fail(c, errno);
		return;
	}
	watch(c->fd, c, EPOLLIN | EPOLLOUT | EPOLLET);
}

/* The ports of a connection say which flow opened it: crates/kernel/src/control.rs. */
void on_listener(struct listener *l)
{
	struct sockaddr_in a;
	struct tcp_info info;
	socklen_t info_len = sizeof info;
	memset(&info, 0, sizeof info);
	if (getsockopt(l->fd, IPPROTO_TCP, TCP_INFO, &info, &info_len)) die("TCP_INFO");
	/* In this state it is the number of connections that wait. */
	for (uint32_t left = info.tcpi_unacked; left; left--) {
		socklen_t len = sizeof a;
		int fd = accept4(l->fd, (void *)&a, &len, SOCK_CLOEXEC);
		if (fd < 0) return;
		uint32_t flow = (l->port % 100) * 60000 + (ntohs(a.sin_port) - 1024);
		struct conn *c = find(flow * 2 + 1);
		if (!c || c->fd >= 0) {
			close(fd);
			continue;
		}
		set_small_segments(fd, c->transport);
		c->fd = fd;
		c->connected = 1;
		watch(fd, c, EPOLLIN | EPOLLOUT | EPOLLET);
	}
}

/* Closes a connection that is freed, once no thread uses it. */
void close_freed(struct conn *c)
{
	if (c->fd < 0 || c->reader || c->writer || c->connector) return;
	close(c->fd);
	c->fd = -1;
}

void free_conn(struct conn *c)
{
	report_counts(c);
	c->freed = 1;
	stop_bulk(c->reader);
	stop_bulk(c->writer);
	stop_bulk(c->connector);
	close_freed(c);
	c->generation++;
	struct conn **at = &buckets[c->address % BUCKETS];
	while (*at != c) at = &(*at)->next;
	*at = c->next;
	/* Events and timers that name it may still be on their way: its memory stays. */
}
