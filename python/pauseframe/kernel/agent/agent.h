/* What the parts of the agent share: agent.c says what it is. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RUN "/run/pauseframe"
#define CONTROL_TYPE 0x88b5 /* IEEE 802: local experimental */

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

extern int ep, timer_fd, signal_fd, bulk_fd;

void die(const char *what);
struct message *report(enum report op, uint32_t address);

/* Hosts and transports, by number. */
#define NAMES_MAX 256
extern char *host_names[NAMES_MAX], *transports[NAMES_MAX], *small_segments[NAMES_MAX];
extern int hosts;
void enter(int host);

/* Connections. */

enum kind { LISTENER, CONN };
struct bulk;
struct listener { enum kind kind; int fd, host; uint16_t port; struct listener *next; };
struct conn {
	enum kind kind;
	int fd, host, side, transport;
	uint32_t address, flow, generation;
	int has_flow, closing, drained, connected, failed, stopped, freed;
	int full;                           /* the socket took only a part: the kernel tells when it has room */
	int reads;                          /* of the loop, since the application waits for bytes */
	struct bulk *reader, *writer;       /* threads that move its data */
	struct bulk *connector;             /* the thread that opens it */
	uint64_t writes, written;           /* bytes to write in all, and written */
	uint64_t delivered, expects;        /* bytes read in all, and those the application waits for */
	uint64_t reply, reply_delay, late;  /* what it answers, and what a timer will write */
	uint64_t told_delivered, told_retrans, told_rto;
	struct conn *next;                  /* in its bucket */
};

#define BUCKETS 65536
extern struct conn *buckets[BUCKETS];
#define ZEROS (1 << 18)
extern char zeros[ZEROS];
/* Fields of the kernel's TCP_INFO that the C library does not know. What it has at its end depends on its version. */
#define BYTES_RECEIVED_AT 128
#define TOTAL_RTO_AT 240

struct conn *find(uint32_t address);
void watch(int fd, void *of, uint32_t events);
void set_blocking(int fd, int blocks);
void report_counts(struct conn *c);
void fail(struct conn *c, int error);
void check_drained(struct conn *c);
void pump(struct conn *c);
void on_expected(struct conn *c);
void drain(struct conn *c);
void on_conn(struct conn *c, uint32_t events);
void begin(struct conn *c, const struct message *m);
void open_conn(const struct message *m);
void on_listener(struct listener *l);
void on_connected(struct conn *c);
void close_freed(struct conn *c);
void free_conn(struct conn *c);

/* Threads. */
int start_bulk(struct conn *c, int is_writer, uint64_t amount);
int start_connect(struct conn *c, const struct sockaddr_in *peer);
void stop_bulk(struct bulk *b);
void on_interrupt(int signal);
void on_bulk(void);

/* Timers. */
uint64_t now(void);
void add_timer(uint64_t at, struct conn *conn, uint32_t generation);
void on_timer(void);

/* Programs. */
void start_programs(void);
void on_child(void);

/* Samples. */
void sample(uint64_t time);
void close_samples(void);
