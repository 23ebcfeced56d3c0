/* json_lines: reads, asks, writes. */
#include "text/json_lines.h"

#include <string.h>

#include "base/byte_buffer.h"
#include "base/check.h"
#include "base/json.h"
#include "base/memory.h"

#define LINE_BYTES_MAX ((size_t)256 << 20)

json_t *json_lines_error(const char *text) {
    json_t *answer = json_object();
    json_t *words = json_string(text);
    if (!words) /* the text quotes bytes that are no UTF-8 */
        words = json_string("the error text is not UTF-8");
    if (answer && words && json_object_set_new(answer, "error", words) == 0)
        return answer;
    json_decref(answer);
    return NULL;
}

/* One line without its newline; *more is false at the end of the file. */
static enum status read_line(FILE *in, struct byte_buffer *line, bool *more, struct error *err) {
    char chunk[16384];
    size_t size = 0;
    int c;
    byte_buffer_clear(line);
    *more = false;
    while ((c = getc_unlocked(in)) != EOF) {
        *more = true;
        if (c == '\n')
            break;
        chunk[size++] = (char)c;
        if (size < sizeof chunk)
            continue;
        TRY(byte_buffer_append(line, chunk, size, err));
        size = 0;
    }
    TRY(byte_buffer_append(line, chunk, size, err));
    return ferror(in) ? error_set(err, STATUS_IO, "reading the input failed") : STATUS_OK;
}

static enum status write_line(FILE *out, json_t *answer, struct error *err) {
    char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
    json_decref(answer);
    if (!text)
        return error_set(err, STATUS_NO_MEMORY, "no memory to write an answer");
    bool written = fputs(text, out) >= 0 && fputc('\n', out) != EOF;
    memory_free(text);
    return written ? STATUS_OK : error_set(err, STATUS_IO, "writing the output failed");
}

static json_t *answer_line(struct text text, json_lines_answer *answer, void *context) {
    struct error problem;
    json_t *line = NULL, *reply = NULL;
    if (json_parse(text, "this line", LINE_BYTES_MAX, &line, &problem) == STATUS_OK) {
        if (json_is_object(line))
            reply = answer(context, line, &problem);
        else
            error_set(&problem, STATUS_INVALID, "this line is not a JSON object");
    }
    json_decref(line);
    return reply ? reply : json_lines_error(problem.text);
}

enum status json_lines_run(FILE *in, FILE *out, json_lines_answer *answer, void *context, struct error *err) {
    CHECK(in && out && answer);
    struct byte_buffer line;
    byte_buffer_init(&line, LINE_BYTES_MAX);
    enum status status = STATUS_OK;
    for (bool more = true; status == STATUS_OK;) {
        status = read_line(in, &line, &more, err);
        if (status != STATUS_OK || !more)
            break;
        if (line.size_bytes > 0)
            status = write_line(out, answer_line(byte_buffer_text(&line), answer, context), err);
    }
    byte_buffer_deinit(&line);
    if (status == STATUS_OK && fflush(out) != 0)
        status = error_set(err, STATUS_IO, "writing the output failed");
    return status;
}
