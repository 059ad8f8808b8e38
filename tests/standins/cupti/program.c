/* A program with kernels and ranges for the stand-in of CUPTI: program LAUNCHES HOW
 * HOW: return, _exit (at once), handler (_exit in a signal handler), kill, quick (quick_exit), sleep (long after),
 *      running (a kernel never ends), fork */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void standin_init(void);
void standin_launch(const char *name, int grid, int block, int shared, int ended);
void standin_copy(int way, int source, int target, int bytes);
void standin_fill(int bytes);
void standin_wait(void);
uint32_t standin_push(const char *name);
void standin_pop(uint32_t id);

static const char *const KERNEL = "_Z4axpyIfLi4EEvPT_S0_f";

static void *backward(void *unused)
{
    standin_launch("backward", 8, 64, 0, 1);
    return unused;
}

static void leave(int number)
{
    (void)number;
    _exit(3);
}

int main(int count, char **words)
{
    int launches = atoi(words[1]);
    const char *how = count > 2 ? words[2] : "return";
    standin_init();
    standin_copy(1, 1, 3, 4096); /* from pageable memory to the device */
    uint32_t step = standin_push("step");
    standin_fill(1024);
    standin_launch(KERNEL, 1024, 256, 48, 1);
    uint32_t inner = standin_push("inner\033[31m");
    for (int i = 0; i < launches; i++)
        standin_launch(KERNEL, i % 2 ? 512 : 1024, 128, 0, 1);
    standin_pop(inner);
    pthread_t thread;
    pthread_create(&thread, NULL, backward, NULL);
    pthread_join(thread, NULL);
    standin_copy(2, 3, 2, 512); /* from the device to pinned memory */
    standin_copy(10, 3, 3, 256); /* to another device */
    standin_pop(step);
    standin_launch("after", 1, 32, 0, strcmp(how, "running") != 0);
    standin_wait();
    printf("launched %d\n", launches + 3);
    fflush(stdout);
    if (!strcmp(how, "_exit"))
        _exit(3);
    if (!strcmp(how, "handler")) {
        signal(SIGTERM, leave);
        raise(SIGTERM);
    }
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    if (!strcmp(how, "sleep"))
        sleep(60);
    if (!strcmp(how, "quick"))
        quick_exit(0);
    if (!strcmp(how, "fork")) {
        if (!fork())
            exit(0);
        wait(NULL);
    }
    return 0;
}
