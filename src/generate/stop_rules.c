/*
 * stop_rules: search and hold-back.
 */
#include "generate/stop_rules.h"

#include <string.h>

#include "base/check.h"

enum status stop_rules_init(struct stop_rules *rules, const char *const *strings, uint32_t count, struct error *err) {
    *rules = (struct stop_rules){0};
    if (count > STOP_STRINGS_MAX)
        return error_set(err, STATUS_INVALID, "%u stop strings, at most %d are allowed", count, STOP_STRINGS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        rules->strings[i] = text_of(strings[i]);
        if (rules->strings[i].size_bytes == 0 || rules->strings[i].size_bytes > STOP_STRING_BYTES_MAX)
            return error_set(err, STATUS_INVALID, "stop string %u has %zu bytes, allowed are 1 to %d", i, rules->strings[i].size_bytes,
                             STOP_STRING_BYTES_MAX);
    }
    rules->count = count;
    return STATUS_OK;
}

/* A window over what was held and what is new. */
struct joined {
    struct text held, text;
};

static char joined_at(const struct joined *j, size_t index) {
    return index < j->held.size_bytes ? j->held.data[index] : j->text.data[index - j->held.size_bytes];
}

/* Bytes of `stop` that stand at `begin`: all of it, or as many as there are before the end; 0 when another byte comes. */
static size_t match_at(const struct joined *j, size_t begin, struct text stop) {
    size_t total = j->held.size_bytes + j->text.size_bytes, length = 0;
    while (length < stop.size_bytes && begin + length < total)
        if (joined_at(j, begin + length) == stop.data[length])
            length++;
        else
            return 0;
    return length;
}

static enum status give_out(const struct joined *j, size_t end, struct byte_buffer *out, struct error *err) {
    size_t from_held = end < j->held.size_bytes ? end : j->held.size_bytes;
    TRY(byte_buffer_append(out, j->held.data, from_held, err));
    return byte_buffer_append(out, j->text.data, end - from_held, err);
}

enum status stop_rules_push(struct stop_rules *rules, struct text text, bool final, struct byte_buffer *out, struct error *err) {
    if (rules->hit)
        return STATUS_OK;
    char held[STOP_STRING_BYTES_MAX];
    memcpy(held, rules->held, rules->held_bytes);
    const struct joined j = {{held, rules->held_bytes}, text};
    size_t total = rules->held_bytes + text.size_bytes, end = total;
    for (size_t begin = 0; begin < total && end == total; begin++)
        for (uint32_t s = 0; s < rules->count; s++) {
            size_t length = match_at(&j, begin, rules->strings[s]);
            rules->hit = length == rules->strings[s].size_bytes;
            if (rules->hit || (length > 0 && !final)) {
                end = begin;
                if (rules->hit)
                    break;
            }
        }
    rules->held_bytes = rules->hit ? 0 : total - end;
    CHECK(rules->held_bytes < STOP_STRING_BYTES_MAX || rules->count == 0);
    for (size_t i = 0; i < rules->held_bytes; i++)
        rules->held[i] = joined_at(&j, end + i);
    return give_out(&j, end, out, err);
}
