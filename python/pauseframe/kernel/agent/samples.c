/* Samples of sockets and counters, as lines of a file. */
#include "agent.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>

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

void sample(uint64_t time)
{
	open_samples();
	for (int h = 0; h < hosts; h++) {
		sample_sockets(h, time);
		for (int i = 0; i < 2; i++) sample_counters(h, i, time);
	}
}

/* The file system of the computer has what was written once it is closed. */
void close_samples(void)
{
	if (samples) fclose(samples);
	samples = NULL;
}
