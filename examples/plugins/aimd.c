/* AIMD(a, b) (Yang and Lam, "General AIMD Congestion Control", ICNP 2000) as a plug-in in C.
 *
 *     cc -O2 -shared -fPIC -I"$(python -c 'import pauseframe; print(pauseframe.include_dir())')" aimd.c -o aimd.so
 *     pauseframe run incast.toml --plugin ./aimd.so --set transport.congestion_control=aimd:aimd_c
 */
#include <pauseframe_cc.h>

#include <stddef.h>

struct state {
    double a, b;
    double credit; /* segments earned and not added yet */
};

static int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t larger(int64_t x, int64_t y) { return x > y ? x : y; }

static int init(void *block, const pauseframe_value *constants) {
    struct state *state = block;
    state->a = constants[0].number;
    state->b = constants[1].number;
    return PAUSEFRAME_OK;
}

static int increase(void *block, pauseframe_window *window, const pauseframe_ack *ack) {
    struct state *state = block;
    int64_t step = smaller(ack->acked, larger(window->ssthresh - window->cwnd, 0)); /* slow start */
    window->cwnd += step;
    int64_t rest = ack->acked - step;
    state->credit += state->a * (double)rest / (double)window->cwnd;
    if (state->credit >= 1.0 && rest == ack->acked) {
        int64_t segments = smaller((int64_t)state->credit, larger(rest / window->mss, 1));
        window->cwnd += segments * window->mss;
        state->credit -= (double)(int64_t)state->credit;
    }
    return PAUSEFRAME_OK;
}

static int64_t reduced(void *block, const pauseframe_window *window, int cause) {
    struct state *state = block;
    (void)cause;
    state->credit = 0.0;
    return larger((int64_t)((double)window->cwnd * (1.0 - state->b)), 2 * window->mss);
}

static const pauseframe_parameter parameters[] = {
    {.key = "a", .doc = "Segments added a round trip", .kind = PAUSEFRAME_NUMBER, .has_range = 1,
     .value.number = 1.0, .low.number = 0.0, .high.number = 100.0},
    {.key = "b", .doc = "Share of the window given up at congestion", .kind = PAUSEFRAME_NUMBER, .has_range = 1,
     .value.number = 0.5, .low.number = 0.0, .high.number = 1.0},
};

static const pauseframe_cc aimd = {
    .abi = PAUSEFRAME_CC_ABI,
    .name = "aimd_c",
    .doc = "AIMD(a, b) (Yang and Lam 2000) in C",
    .parameters = parameters,
    .parameter_count = 2,
    .state_size = sizeof(struct state),
    .init = init,
    .increase = increase,
    .reduced = reduced,
};

const pauseframe_cc *pauseframe_congestion_control(uint32_t index) { return index == 0 ? &aimd : NULL; }
