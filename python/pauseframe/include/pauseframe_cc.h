/* Congestion controls for pauseframe in C, or in any language that can build a shared library.
 *
 *     cc -O2 -shared -fPIC -I"$(python -c 'import pauseframe; print(pauseframe.include_dir())')" mine.c -o mine.so
 *     pauseframe run incast.toml --plugin ./mine.so --set transport.congestion_control=mine:NAME
 *
 * A library defines pauseframe_congestion_control(). How far a window opens and closes is the algorithm's; when it does
 * (once per window, not while the application leaves the window unused, not during recovery) is the simulator's.
 *
 * Units: bytes, bits per second, picoseconds. The functions of one connection are never called at the same time, those of
 * two connections may be. A function must keep its memory in the state block: the simulator copies it. The same calls must
 * give the same answers: no clock, no random numbers, no global variables.
 */
#ifndef PAUSEFRAME_CC_H
#define PAUSEFRAME_CC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. A library that was built for another version is refused. */
#define PAUSEFRAME_CC_ABI 1u

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
} pauseframe_cc;

/* What a library defines: the algorithm of that number, from 0 on; NULL behind the last. */
const pauseframe_cc *pauseframe_congestion_control(uint32_t index);

#ifdef __cplusplus
}
#endif

#endif
