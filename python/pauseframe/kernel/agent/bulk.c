/* Threads that block in a system call: to move bulk data, in one call for many packets, or to open a connection. */
#include "agent.h"

#include <pthread.h>
#include <signal.h>

#define BULKS_MAX 1024
#define CONNECTS_MAX 4096
#define BULK_MIN (1 << 18)
#define STACK 32768
enum work { READ, WRITE, CONNECT };
struct bulk {
	struct conn *conn;
	enum work work;
	int error, stack;
	struct sockaddr_in peer;
	uint64_t amount, moved;
	pthread_t thread;
	struct bulk *next;
};
static int bulk_count, connect_count;
static struct bulk *ended_bulks;
static pthread_mutex_t bulk_lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t move_part(const struct bulk *b, uint64_t left)
{
	if (b->work == WRITE) return send(b->conn->fd, zeros, left < sizeof zeros ? left : sizeof zeros, MSG_NOSIGNAL);
	return recv(b->conn->fd, zeros, left < 1 << 30 ? left : 1 << 30, MSG_TRUNC | MSG_WAITALL);
}

static void *move_bulk(void *of)
{
	struct bulk *b = of;
	if (b->work == CONNECT && connect(b->conn->fd, (void *)&b->peer, sizeof b->peer)) b->error = errno;
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

/* Stacks lie side by side: a mapping for each costs a kernel more the more it has. */
static char stacks[BULKS_MAX + CONNECTS_MAX][STACK] __attribute__((aligned(4096)));
static int unused_stacks[BULKS_MAX + CONNECTS_MAX], unused_count, stacks_taken;

static int start_thread(struct bulk *b)
{
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	b->stack = unused_count ? unused_stacks[--unused_count] : stacks_taken++;
	pthread_attr_setstack(&attributes, stacks[b->stack], STACK);
	int error = pthread_create(&b->thread, &attributes, move_bulk, b);
	if (error) unused_stacks[unused_count++] = b->stack;
	return error;
}

static void join_thread(const struct bulk *b)
{
	if ((errno = pthread_join(b->thread, NULL))) die("thread");
	unused_stacks[unused_count++] = b->stack;
}

/* True if a thread opens it; false if too many do so already. */
int start_connect(struct conn *c, const struct sockaddr_in *peer)
{
	if (connect_count == CONNECTS_MAX) return 0;
	struct bulk *b = calloc(1, sizeof *b);
	if (!b) die("memory");
	b->conn = c;
	b->work = CONNECT;
	b->peer = *peer;
	if (start_thread(b)) {
		free(b);
		return 0;
	}
	c->connector = b;
	connect_count++;
	return 1;
}

/* True if a thread moves this much from now on. */
int start_bulk(struct conn *c, int is_writer, uint64_t amount)
{
	if (amount < BULK_MIN || bulk_count == BULKS_MAX) return 0;
	struct bulk *b = calloc(1, sizeof *b);
	if (!b) die("memory");
	b->conn = c;
	b->work = is_writer ? WRITE : READ;
	b->amount = amount;
	if (is_writer) c->writer = b;
	else c->reader = b;
	set_blocking(c->fd, 1);
	watch_rest(c);
	if ((errno = start_thread(b))) die("thread");
	bulk_count++;
	return 1;
}

void on_interrupt(int signal) { (void)signal; }

/* A thread that is about to make its system call returns from it as well. */
void stop_bulk(struct bulk *b)
{
	if (!b) return;
	set_blocking(b->conn->fd, 0);
	pthread_kill(b->thread, SIGUSR1);
}

/* What threads have moved, in the order of their ends. */
void on_bulk(void)
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
		join_thread(b);
		enum work work = b->work;
		if (work == CONNECT) {
			connect_count--;
			c->connector = NULL;
		} else {
			bulk_count--;
		}
		if (work == WRITE) {
			c->writer = NULL;
			c->written += b->moved;
			if (c->stopped) c->writes = c->written;
		} else if (work == READ) {
			c->reader = NULL;
			c->reads = 0;
			c->delivered += b->moved;
		}
		int error = b->error;
		free(b);
		if (c->freed) {
			close_freed(c);
			continue;
		}
		if (work == CONNECT) {
			if (error) fail(c, error);
			else on_connected(c);
			continue;
		}
		if (error && error != EINTR && error != EAGAIN) fail(c, error);
		/* If it has bytes, or room for bytes, an event says so. */
		watch_rest(c);
		if (c->delivered >= c->expects) on_expected(c);
		pump(c);
		check_drained(c);
	}
}
