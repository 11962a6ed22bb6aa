/* Fault injection: which call fails, with what, and which one is slow. */
#include "sim.h"
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RULES  64
#define NAME_BYTES 64

struct rule {
    char name[NAME_BYTES];
    unsigned long nth; /* calls still to go until it fails; 0: every call */
    int code;
    bool spent, every;
    unsigned long delay;
    int64_t neighbour; /* not 0: no fault, but what other processes take just then */
};

static struct rule rules[MAX_RULES];
static unsigned rule_count;
static unsigned long generation = 1;
static uint64_t random_state;
static unsigned long random_one_in;
static int random_code = CUDA_ERROR_OUT_OF_MEMORY;
static char random_names[512];

static bool name_matches(const char *pattern, const char *name)
{
    size_t length = strlen(pattern);
    if (length && pattern[length - 1] == '*')
        return strncmp(pattern, name, length - 1) == 0;
    return strcmp(pattern, name) == 0;
}

static bool listed(const char *list, const char *name)
{
    char one[NAME_BYTES];
    while (list && *list) {
        size_t length = strcspn(list, ",");
        if (length && length < sizeof(one)) {
            memcpy(one, list, length);
            one[length] = '\0';
            if (name_matches(one, name))
                return true;
        }
        list += length + (list[length] == ',');
    }
    return false;
}

static struct rule *rule_add(const char *name, size_t length)
{
    struct rule *rule = NULL;
    for (unsigned i = 0; i < rule_count && !rule; i++)
        if (rules[i].spent)
            rule = &rules[i];
    if (!rule && rule_count < MAX_RULES)
        rule = &rules[rule_count++];
    if (!rule || length >= NAME_BYTES)
        return NULL;
    memset(rule, 0, sizeof(*rule));
    memcpy(rule->name, name, length);
    generation++;
    return rule;
}

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void neighbour_moves(int64_t bytes)
{
    for (int i = 0; i < SIM_MAX_CARDS; i++) {
        uint64_t *other = &sim_cards[i].other;
        if (bytes >= 0 || *other > (uint64_t)-bytes)
            *other += (uint64_t)bytes;
        else
            *other = 0;
    }
}

CUresult sim_call_faults(struct sim_call *call, unsigned long *delay)
{
    CUresult code = CUDA_SUCCESS;
    if (call->rules_seen != generation) {
        call->rules_seen = generation;
        call->ruled = false;
        for (unsigned i = 0; i < rule_count; i++)
            if (!rules[i].spent && name_matches(rules[i].name, call->name))
                call->ruled = true;
    }
    if (call->ruled) {
        for (unsigned i = 0; i < rule_count; i++) {
            struct rule *rule = &rules[i];
            if (rule->spent || !name_matches(rule->name, call->name))
                continue;
            if (rule->delay) {
                *delay += rule->delay;
            } else if (rule->neighbour) {
                if (rule->nth == 0 || --rule->nth == 0)
                    neighbour_moves(rule->neighbour);
                rule->spent = rule->nth == 0 && !rule->every;
            } else if (rule->nth == 0) {
                code = rule->code;
            } else if (--rule->nth == 0) {
                code = rule->code;
                rule->spent = true;
            }
        }
    }
    if (!code && random_one_in && random_next() % random_one_in == 0 &&
        (!*random_names || listed(random_names, call->name)) &&
        !listed(sim_settings.sure, call->name))
        code = random_code;
    return code;
}

/* "name:n:code" and "~one_in:seed[:code]", separated by commas. */
static void faults_parse(const char *text)
{
    while (text && *text) {
        size_t length = strcspn(text, ",");
        char one[128];
        if (length < sizeof(one)) {
            char *first, *second;
            memcpy(one, text, length);
            one[length] = '\0';
            first = strchr(one, ':');
            second = first ? strchr(first + 1, ':') : NULL;
            if (one[0] == '~') {
                random_one_in = strtoul(one + 1, NULL, 10);
                random_state = (first ? strtoul(first + 1, NULL, 10) : 1) * 2654435761u + 1;
                if (second)
                    random_code = atoi(second + 1);
            } else if (first && second) {
                struct rule *rule = rule_add(one, (size_t)(first - one));
                if (rule) {
                    rule->nth = strtoul(first + 1, NULL, 10);
                    rule->code = atoi(second + 1);
                }
            } else {
                fprintf(stderr, "standin: GPUSTANDIN_FAULTS: '%s' is not name:n:code\n", one);
            }
        }
        text += length + (text[length] == ',');
    }
}

static void delays_parse(const char *text)
{
    while (text && *text) {
        size_t length = strcspn(text, ",");
        const char *colon = memchr(text, ':', length);
        if (colon) {
            struct rule *rule = rule_add(text, (size_t)(colon - text));
            if (rule)
                rule->delay = strtoul(colon + 1, NULL, 10);
        }
        text += length + (text[length] == ',');
    }
}

/* At load, so that a fault can be told to hit the very first call. */
__attribute__((constructor)) void sim_faults_read(void)
{
    sim_settings_read(&sim_settings);
    faults_parse(sim_settings.faults);
    delays_parse(sim_settings.delays);
}

void standin_fail(const char *name, unsigned long nth, int code)
{
    struct rule *rule;
    sim_lock();
    rule = rule_add(name, strlen(name));
    if (rule) {
        rule->nth = nth;
        rule->code = code;
    }
    sim_unlock();
}

void standin_neighbour(const char *name, unsigned long nth, long long bytes)
{
    struct rule *rule;
    sim_lock();
    rule = rule_add(name, strlen(name));
    if (rule) {
        rule->nth = nth;
        rule->every = nth == 0;
        rule->neighbour = bytes;
        rule->spent = bytes == 0;
    }
    sim_unlock();
}

void standin_delay(const char *name, unsigned long microseconds)
{
    struct rule *rule;
    sim_lock();
    rule = rule_add(name, strlen(name));
    if (rule) {
        rule->delay = microseconds;
        rule->spent = microseconds == 0;
    }
    sim_unlock();
}

void standin_fail_random(unsigned long seed, unsigned long one_in)
{
    sim_lock();
    random_state = seed * 2654435761u + 1;
    random_one_in = one_in;
    sim_unlock();
}

void standin_fail_random_code(int code)
{
    sim_lock();
    random_code = code;
    sim_unlock();
}

void standin_fail_random_names(const char *names)
{
    sim_lock();
    snprintf(random_names, sizeof(random_names), "%s", names ? names : "");
    sim_unlock();
}

void standin_fail_clear(void)
{
    sim_lock();
    rule_count = 0;
    random_one_in = 0;
    random_names[0] = '\0';
    random_code = CUDA_ERROR_OUT_OF_MEMORY;
    generation++;
    sim_unlock();
}
