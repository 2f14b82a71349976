/* Plug-ins that trap, one for each value of HOW. */
#include <pauseframe_cc.h>

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int zero;

static int recurse(int depth) {
    volatile char large[4096];
    large[0] = (char)depth;
    return recurse(depth + 1) + large[0];
}

static int init(void *state, const pauseframe_value *constants) {
    (void)state;
    (void)constants;
    return PAUSEFRAME_OK;
}

static int increase(void *state, pauseframe_window *window, const pauseframe_ack *ack) {
    (void)state;
    (void)ack;
#if HOW == 1
    window->cwnd /= zero;
#elif HOW == 2
    *(volatile int *)NULL = 1;
#elif HOW == 3
    abort();
#elif HOW == 4
    window->cwnd += recurse(0);
#elif HOW == 5
    while (!zero) {
        sleep(1); /* other tests get the processor */
    }
#endif
    return PAUSEFRAME_OK;
}

static int64_t reduced(void *state, const pauseframe_window *window, int cause) {
    (void)state;
    (void)cause;
    return window->cwnd / 2;
}

static const pauseframe_cc trap = {
    .abi = PAUSEFRAME_CC_ABI,
    .name = "trap",
    .doc = "Traps",
    .state_size = 8,
    .init = init,
    .increase = increase,
    .reduced = reduced,
};

const pauseframe_cc *pauseframe_congestion_control(uint32_t index) { return index == 0 ? &trap : NULL; }
