/* Timers: a heap by time. */
#include "agent.h"

#include <sys/timerfd.h>

struct timer { uint64_t at, order; struct conn *conn; uint32_t generation; };
static struct timer *heap;
static int heap_len, heap_cap;
static uint64_t timers_made;

uint64_t now(void)
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
void add_timer(uint64_t at, struct conn *conn, uint32_t generation)
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


void on_timer(void)
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
