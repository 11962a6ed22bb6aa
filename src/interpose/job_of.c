/*
 * job_of.c: which job, and how it is joined.
 */
#include "interpose/job_of.h"

#include <string.h>
#include <unistd.h>

#include "config/characters.h"
#include "interpose/fork.h"
#include "job/job_clean.h"
#include "report/line.h"

/* Files of ended processes that are looked at with a join. */
enum { CLEANED = 4 };

/* With the lock of its callers. Never left: the slot is the process's until it ends. */
static struct gb_job joined;
static struct gb_job_name name;
static bool is_joined;

bool gb_job_of_name(const struct gb_settings *settings, struct gb_job_name *found)
{
    if (settings->job[0] != '\0') {
        memcpy(found->text, settings->job, sizeof(found->text));
        return true;
    }
    return gb_job_name_of_scheduler(found) || gb_job_name_of_process("pid", getpid(), found);
}

static void say(char *text, size_t size, const char *path, const char *why)
{
    struct gb_line line;

    gb_line_begin(&line, text, size);
    gb_line_text(&line, "the job's budget cannot be kept: ");
    gb_line_text(&line, path);
    gb_line_text(&line, " ");
    gb_line_text(&line, why);
}

struct gb_job *gb_job_of_process(const struct gb_settings *settings, char *text, size_t size)
{
    struct gb_job_name found;
    struct gb_state_dir dir;
    bool done;

    if (is_joined)
        return &joined;
    if (!gb_job_of_name(settings, &found)) {
        say(text, size, "/proc/self/stat", "does not tell when this process began");
        return NULL;
    }
    if (!gb_state_dir_find(settings->state_dir[0] ? settings->state_dir : NULL, &dir)) {
        say(text, size, dir.path, dir.refused);
        return NULL;
    }
    gb_fork_keep_out();
    /* Who leaves a file behind takes some of others away. */
    if (settings->job[0] == '\0')
        gb_job_clean_some(&dir, CLEANED);
    done = gb_job_join(&joined, &dir, &found);
    gb_fork_let_in();
    if (!done) {
        say(text, size, joined.file.path, joined.file.refused);
        return NULL;
    }
    name = found;
    is_joined = true;
    return &joined;
}

void gb_job_of_forked(void)
{
    if (is_joined)
        gb_job_forked(&joined);
}

const char *gb_job_of_text(void)
{
    return name.text;
}

static int digit(char character)
{
    character = gb_lower(character);
    if (gb_is_digit(character))
        return character - '0';
    return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

/* The hex digits of a UUID after its head; false: there are not 32 of them. */
static bool from_digits(const char *uuid, unsigned char bytes[16])
{
    const char *at = strchr(uuid, '-');
    int count = 0;

    if (!at)
        return false;
    for (at++; *at; at++) {
        int value = digit(*at);

        if (*at == '-')
            continue;
        if (value < 0 || count == 32)
            return false;
        if (count % 2 == 0)
            bytes[count / 2] = (unsigned char)(value << 4);
        else
            bytes[count / 2] |= (unsigned char)value;
        count++;
    }
    return count == 32;
}

void gb_job_of_uuid(const struct gb_device_identity *device, unsigned char bytes[16])
{
    const char *text = device->uuid[0] != '\0' ? device->uuid : device->pci;
    uint64_t sum[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};

    if (from_digits(device->uuid, bytes))
        return;
    /* Any other name, the same for all processes. */
    for (; *text; text++)
        for (int i = 0; i < 2; i++)
            sum[i] = (sum[i] ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    memcpy(bytes, sum, 16);
}

int gb_job_of_device(struct gb_job *job, const struct gb_device_identity *device,
                     uint64_t limit, char *text, size_t size)
{
    unsigned char bytes[16];
    int place;

    gb_job_of_uuid(device, bytes);
    gb_fork_keep_out();
    place = gb_job_file_device(&job->file, bytes, limit);
    gb_fork_let_in();
    if (place < 0)
        say(text, size, job->file.path,
            gb_job_file_is_gone(&job->file) ? "has been removed"
                                            : "has no room for another device");
    return place;
}

void gb_job_of_look(const struct gb_settings *settings, const struct gb_device_identity *device,
                    struct gb_job_seen *seen)
{
    unsigned char bytes[16];
    struct gb_job_name found;
    struct gb_state_dir dir;

    *seen = (struct gb_job_seen){.limit = GB_JOB_NO_LIMIT};
    gb_job_of_uuid(device, bytes);
    if (gb_job_of_name(settings, &found) &&
        gb_state_dir_find(settings->state_dir[0] ? settings->state_dir : NULL, &dir))
        gb_job_look(&dir, &found, bytes, seen);
}
