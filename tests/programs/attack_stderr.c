/*
 * attack_stderr.c: runs a command whose stderr is a pipe that is full and never read.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char filler[4096];
    int ends[2];

    if (argc < 2 || pipe(ends) != 0)
        return 125;
    memset(filler, 'x', sizeof(filler));
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], filler, sizeof(filler)) > 0)
        ;
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], STDERR_FILENO);
    execvp(argv[1], argv + 1);
    return 127;
}
