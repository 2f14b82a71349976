/* A congestion control of queue pairs in C: half the rate at a CNP, 1/2000 of the line more with each acknowledgement. */
#include <pauseframe_cc.h>
#include <stddef.h>

static int init(void *state, const pauseframe_value *constants)
{
    (void)state;
    (void)constants;
    return PAUSEFRAME_OK;
}

static int on_ack(void *state, pauseframe_pair *pair, const pauseframe_pair_ack *ack)
{
    (void)state;
    (void)ack;
    int64_t next = pair->rate + pair->line_rate / 2000;
    pair->rate = next < pair->line_rate ? next : pair->line_rate;
    return PAUSEFRAME_OK;
}

static int on_cnp(void *state, pauseframe_pair *pair)
{
    (void)state;
    int64_t floor = pair->line_rate / 1000;
    pair->rate = pair->rate / 2 > floor ? pair->rate / 2 : floor;
    return PAUSEFRAME_OK;
}

static const pauseframe_rate_control ALGORITHM = {
    .abi = PAUSEFRAME_CC_ABI,
    .flags = PAUSEFRAME_RATE_CONTROL,
    .name = "cnp_aimd",
    .doc = "Halves the rate at a CNP and raises it with each acknowledgement",
    .init = init,
    .on_ack = on_ack,
    .on_cnp = on_cnp,
};

const pauseframe_rate_control *pauseframe_rate_controls(uint32_t index)
{
    return index == 0 ? &ALGORITHM : NULL;
}
