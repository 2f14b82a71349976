/* Congestion controls for pauseframe in C, or in any language that can build a shared library: windows of TCP connections,
 * and rates of RoCEv2 queue pairs.
 *
 *     cc -O2 -shared -fPIC -I"$(python -c 'import pauseframe; print(pauseframe.include_dir())')" mine.c -o mine.so
 *     pauseframe run incast.toml --plugin ./mine.so --set transport.congestion_control=mine:NAME
 *
 * A library defines pauseframe_congestion_control(), pauseframe_rate_controls(), or both. How far a window opens and closes is the algorithm's; when it does
 * (once per window, not while the application leaves the window unused, not during recovery) is the simulator's.
 *
 * Units: bytes, bits per second, picoseconds. The functions of one connection are never called at the same time, those of
 * two connections may be. A function must keep its memory in the state block: the simulator copies it. The same calls must
 * give the same answers: no clock, no global variables, and no random numbers but those in the field random.
 */
#ifndef PAUSEFRAME_CC_H
#define PAUSEFRAME_CC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. A library that was built for another version is refused. */
#define PAUSEFRAME_CC_ABI 3u

/* What functions of type int return. */
#define PAUSEFRAME_FAILED 0 /* ends the run with an error */
#define PAUSEFRAME_OK 1

/* Limits. Beyond them the run ends with an error. */
#define PAUSEFRAME_WINDOW_MAX ((int64_t)1 << 40)            /* bytes */
#define PAUSEFRAME_PACING_RATE_MAX INT64_C(1000000000000000) /* bits per second */
#define PAUSEFRAME_STATE_MAX 65536u                          /* bytes a connection */
#define PAUSEFRAME_PARAMETERS_MAX 32u

#define PAUSEFRAME_MICROSECOND INT64_C(1000000)     /* in picoseconds */
#define PAUSEFRAME_SECOND INT64_C(1000000000000)    /* in picoseconds */

/* The congestion window (RFC 5681, section 2). */
typedef struct pauseframe_window {
    int64_t cwnd;        /* bytes; what is below one segment counts as one segment */
    int64_t ssthresh;    /* bytes; INT64_MAX until the first congestion */
    int64_t pacing_rate; /* bits per second; 0: none, then pacing, if it is on, follows from cwnd and srtt */
    int64_t mss;         /* bytes of a full segment; changes to it have no effect */
    int64_t random;      /* 63 random bits, others in each call, decided by the seed of the run */
    int64_t timer;       /* when on_timer is called, picoseconds since the start of the run; 0: never */
} pauseframe_window;

/* What an ACK tells. */
typedef struct pauseframe_ack {
    int64_t acked;   /* bytes newly acknowledged, with stack "linux" by SACK too; 0: none */
    int64_t ece;     /* 1: the ACK carried ECE (an ECN mark was echoed) */
    int64_t snd_una; /* first byte not acknowledged, after this ACK; counts from the first byte of the connection */
    int64_t snd_nxt; /* next new byte to send */
    int64_t now;     /* picoseconds since the start of the run */
    int64_t rtt;     /* picoseconds since the newest acknowledged segment was sent; 0: no sample (it was sent twice) */
    int64_t srtt;    /* smoothed round-trip time with that sample, picoseconds; 0 before the first */
    int64_t open;    /* 1: no recovery and no reduction is under way */
} pauseframe_ack;

/* A delivery-rate sample (draft-ietf-ccwg-ratesample, as Linux takes it). Bytes and picoseconds. */
typedef struct pauseframe_delivery {
    int64_t now;             /* since the start of the run */
    int64_t acked;           /* newly delivered by this ACK, by SACK too */
    int64_t lost;            /* newly presumed lost */
    int64_t in_flight;       /* in the network after this ACK */
    int64_t prior_in_flight; /* in the network before it */
    int64_t delivered;       /* since the connection began */
    int64_t prior_delivered; /* what had been delivered when the newest segment of this ACK was sent */
    int64_t interval;        /* in which delivered - prior_delivered arrived; 0: no sample */
    int64_t rate;            /* bits per second; 0: no sample */
    int64_t app_limited;     /* 1: the application limited the sample */
    int64_t rtt;             /* of the newest segment of this ACK; 0: no sample */
    int64_t min_rtt;         /* smallest of the connection; 0: none yet */
    int64_t srtt;            /* smoothed; 0 before the first sample */
    int64_t total_lost;      /* presumed lost since the connection began */
    int64_t recovering;      /* 1: recovery or a reduction is under way */
} pauseframe_delivery;

/* Why a window must shrink. */
enum { PAUSEFRAME_ECN = 0, PAUSEFRAME_LOSS = 1 };

/* A constant: number has a floating-point number, integer the others. */
typedef union pauseframe_value {
    double number;
    int64_t integer;
} pauseframe_value;

/* Kinds of constants. */
enum {
    PAUSEFRAME_NUMBER = 0, /* a number */
    PAUSEFRAME_COUNT = 1,  /* a whole number from 0 to 2^32 - 1 */
    PAUSEFRAME_FLAG = 2,   /* 0 or 1 */
    PAUSEFRAME_TIME = 3    /* picoseconds */
};

/* A constant that scenarios can set. The key "gain" of the algorithm "Mine" is transport.mine_gain. */
typedef struct pauseframe_parameter {
    const char *key;   /* lower-case letters, digits, '_' */
    const char *doc;   /* one line, with unit and source */
    int32_t kind;      /* PAUSEFRAME_NUMBER ... */
    int32_t has_range; /* 1: low and high hold */
    pauseframe_value value; /* the default */
    pauseframe_value low;
    pauseframe_value high;
} pauseframe_parameter;

/* The algorithm needs the exact echo of each mark (ecn = "dctcp"); a scenario with another ecn gets a warning. */
#define PAUSEFRAME_CC_NEEDS_EXACT_ECN 1u
/* The algorithm sets pacing_rate: pacing is on unless the scenario says pacing = false. */
#define PAUSEFRAME_CC_PACES 2u
/* The description is a pauseframe_rate_control. */
#define PAUSEFRAME_RATE_CONTROL 4u
/* Switches stamp data packets with telemetry, as for HPCC. */
#define PAUSEFRAME_READS_TELEMETRY 8u
/* The rate control sets a window. */
#define PAUSEFRAME_SETS_WINDOW 16u

/* One algorithm. What may be NULL says what the simulator does then. */
typedef struct pauseframe_cc {
    uint32_t abi;   /* PAUSEFRAME_CC_ABI */
    uint32_t flags; /* of PAUSEFRAME_CC_... */
    const char *name; /* letters, digits, '_'; scenarios name it as FILE:NAME */
    const char *doc;  /* one line */
    const pauseframe_parameter *parameters;
    uint64_t parameter_count;
    uint64_t state_size; /* bytes a connection; the block is aligned to 8 bytes */

    /* Fills the state of a new connection, all zero bytes, from the constants in the order of parameters. */
    int (*init)(void *state, const pauseframe_value *constants);
    /* Sees every ACK, with stack "linux" also one of nothing new, before the window changes. May set pacing_rate, and
     * end slow start by setting ssthresh to cwnd; must not change cwnd. NULL: nothing. */
    int (*on_ack)(void *state, pauseframe_window *window, const pauseframe_ack *ack);
    /* Opens the window; an algorithm that goes by delay may close it too. Called for an ACK of new data while the window
     * is what limits the flow, outside of recovery. */
    int (*increase)(void *state, pauseframe_window *window, const pauseframe_ack *ack);
    /* The window after congestion in bytes, the new ssthresh. window->cwnd is the window when it struck. Called at most
     * once per window of data and cause (PAUSEFRAME_ECN, PAUSEFRAME_LOSS). */
    int64_t (*reduced)(void *state, const pauseframe_window *window, int cause);
    /* The window after a loss in a window of data that ECE has reduced already (Linux). NULL: it stays. */
    int64_t (*loss_after_ecn)(void *state, const pauseframe_window *window);
    /* What was earned towards the next segment is lost (Linux, at each reduction). NULL: nothing. */
    int (*forget_earned)(void *state);
    /* The retransmission timer expired; after reduced() if that is due. NULL: nothing. */
    int (*on_timeout)(void *state);
    /* Data are sent again after idle picoseconds with nothing in flight. NULL: nothing. */
    int (*on_restart)(void *state, int64_t idle);
    /* Consecutive timeouts after which single bytes probe the path (pFabric). NULL: never. */
    int64_t (*probe_after)(const void *state);
    /* The value that series record as "alpha": of DCTCP the fraction of marked bytes. NULL: none. */
    double (*alpha)(const void *state);
    /* Sets the window at every ACK, after loss detection, in recovery and while the application leaves the window unused
     * too (Linux: cong_control). Nothing else then changes the window but a timeout, and increase and reduced must be
     * NULL. NULL: increase and reduced decide. */
    int (*on_delivery)(void *state, pauseframe_window *window, const pauseframe_delivery *delivery);
    /* window->timer is due; it is 0 then, so set it again for the next time. May set the window. now: picoseconds since
     * the start of the run. The timer stands still while nothing is left to send or to acknowledge. NULL: nothing. */
    int (*on_timer)(void *state, pauseframe_window *window, int64_t now);
} pauseframe_cc;

/* A queue pair. */
typedef struct pauseframe_pair {
    int64_t rate;      /* bits per second; more than the line rate counts as the line rate */
    int64_t window;    /* bytes in flight; 0: any number */
    int64_t timer;     /* when on_timer is called, picoseconds since the start of the run; 0: never */
    int64_t now;       /* picoseconds since the start of the run */
    int64_t line_rate; /* bits per second of the host's link */
    int64_t mtu;       /* bytes of payload of a full packet */
    int64_t base_rtt;  /* picoseconds on the longest path of the idle network */
    int64_t links;     /* links on the path */
    int64_t random;    /* 63 random bits, others in each call, decided by the seed of the run */
} pauseframe_pair;

#define PAUSEFRAME_HOPS_MAX 8

/* What an acknowledgement tells. Arrays: by hop, from the sender on; filled with PAUSEFRAME_READS_TELEMETRY. */
typedef struct pauseframe_pair_ack {
    int64_t acked;   /* bytes newly acknowledged */
    int64_t packets; /* packets newly acknowledged */
    int64_t una;     /* bytes acknowledged since the queue pair began */
    int64_t nxt;     /* bytes sent since then */
    int64_t rtt;     /* picoseconds of the last packet; 0: no sample */
    int64_t hops;    /* with telemetry, at most 5 */
    int64_t hop_rate[PAUSEFRAME_HOPS_MAX];  /* bits per second of the link behind the hop */
    int64_t hop_queue[PAUSEFRAME_HOPS_MAX]; /* bytes in its queue when the packet left */
    int64_t hop_bytes[PAUSEFRAME_HOPS_MAX]; /* bytes sent until then; only differences have a meaning */
    int64_t hop_time[PAUSEFRAME_HOPS_MAX];  /* picoseconds; only differences have a meaning */
} pauseframe_pair_ack;

/* One rate control of queue pairs. Each function may set rate, window and timer of the pair. NULL: nothing. */
typedef struct pauseframe_rate_control {
    uint32_t abi;   /* PAUSEFRAME_CC_ABI */
    uint32_t flags; /* PAUSEFRAME_RATE_CONTROL, and others */
    const char *name; /* letters, digits, '_'; scenarios name it as FILE:NAME in rdma_control */
    const char *doc;  /* one line */
    const pauseframe_parameter *parameters;
    uint64_t parameter_count;
    uint64_t state_size; /* bytes a queue pair; the block is aligned to 8 bytes */

    /* Fills the state of a new queue pair, all zero bytes, from the constants in the order of parameters. Not NULL. */
    int (*init)(void *state, const pauseframe_value *constants);
    /* A queue pair begins, at its line rate and without a window. */
    int (*on_start)(void *state, pauseframe_pair *pair);
    /* Packets are acknowledged. Not NULL. */
    int (*on_ack)(void *state, pauseframe_pair *pair, const pauseframe_pair_ack *ack);
    /* A congestion notification packet has come; receivers send them if this is not NULL. */
    int (*on_cnp)(void *state, pauseframe_pair *pair);
    /* Packets are sent again. */
    int (*on_loss)(void *state, pauseframe_pair *pair);
    /* The timer is due; it is 0 again. */
    int (*on_timer)(void *state, pauseframe_pair *pair);
    /* A packet has left that takes so many bytes on the wire. */
    int (*on_sent)(void *state, pauseframe_pair *pair, int64_t sent);
} pauseframe_rate_control;

/* What a library defines: the algorithm of that number, from 0 on; NULL behind the last. */
const pauseframe_cc *pauseframe_congestion_control(uint32_t index);
const pauseframe_rate_control *pauseframe_rate_controls(uint32_t index);

#ifdef __cplusplus
}
#endif

#endif
