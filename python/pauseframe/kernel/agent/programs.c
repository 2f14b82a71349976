/* Programs of the user. */
#include "agent.h"

#include <sched.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#define PROGRAMS_MAX 256
static pid_t programs[PROGRAMS_MAX];
static int program_count, running_count;

static void start_program(char *host, const char *command, int number)
{
	int h = 0;
	while (h < hosts && strcmp(host_names[h], host)) h++;
	if (h == hosts) die(host);
	pid_t pid = fork();
	if (pid < 0) die("fork");
	if (pid) {
		programs[number] = pid;
		running_count++;
		return;
	}
	char file[256];
	snprintf(file, sizeof file, RUN "/program-%d.log", number);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	enter(h);
	int out = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	int in = open("/dev/null", O_RDONLY);
	if (out < 0 || in < 0) die(file);
	dup2(in, 0);
	dup2(out, 1);
	dup2(out, 2);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	die("/bin/sh");
}

void start_programs(void)
{
	char line[4096];
	FILE *f = fopen(RUN "/programs", "r");
	if (!f) return;
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		char *command = strchr(line, '\t');
		if (!command || program_count == PROGRAMS_MAX) die("programs");
		*command++ = 0;
		start_program(line, command, program_count++);
	}
	fclose(f);
}

void on_child(void)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;
	if (read(signal_fd, &info, sizeof info) < 0) die("signalfd");
	while (running_count && (pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < program_count; i++)
			if (programs[i] == pid) {
				running_count--;
				struct message *m = report(PROGRAM_ENDED, i);
				m->v[0] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
			}
}
