/*
 * json_scan: reads a large JSON file value by value through a window of 64 KiB, so that a vocabulary of many megabytes never
 * exists as a tree.
 *
 * Why separate  jansson builds trees; a tokenizer.json of 33 MB becomes one of hundreds. Here the caller walks: it takes the values
 *               it knows, skips the rest, and hands small ones (json_scan_raw) to jansson.
 * Model         a cursor that stands before a value. enter_* / next_* walk a container: next_* gives false at its end.
 * Failure       not JSON, not UTF-8, nested deeper than 64 levels or cut short: STATUS_CORRUPT with source and byte offset.
 * Ownership     texts live in the scanner until its next call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"

enum json_kind { JSON_KIND_OBJECT, JSON_KIND_ARRAY, JSON_KIND_STRING, JSON_KIND_NUMBER, JSON_KIND_WORD }; /* word: true, false, null */

struct json_scan {
    const char *source; /* for errors; must outlive the scan */
    int file;           /* -1: all bytes are in the window */
    char *window;       /* owned when file >= 0 */
    size_t begin, end;  /* unread part of the window */
    uint64_t base;      /* offset of window[0] */
    struct byte_buffer text;
    bool first; /* the container just entered has given no member yet */
};

/* A missing file is STATUS_NOT_FOUND. path must outlive the scan. */
MUST_CHECK enum status json_scan_open(struct json_scan *scan, const char *path, struct error *err);
void json_scan_memory(struct json_scan *scan, struct text bytes, const char *source);
void json_scan_close(struct json_scan *scan);

/* Where the next value (or punctuation) begins, and going back there. */
uint64_t json_scan_offset(const struct json_scan *scan);
MUST_CHECK enum status json_scan_seek(struct json_scan *scan, uint64_t offset, struct error *err);

MUST_CHECK enum status json_scan_kind(struct json_scan *scan, enum json_kind *kind, struct error *err);
/* Fails when the value is of another kind. */
MUST_CHECK enum status json_scan_enter(struct json_scan *scan, enum json_kind object_or_array, struct error *err);
/* The next member of an object: its key (in scan->text), the cursor before its value. */
MUST_CHECK enum status json_scan_next_key(struct json_scan *scan, bool *more, struct text *key, struct error *err);
MUST_CHECK enum status json_scan_next_item(struct json_scan *scan, bool *more, struct error *err);
MUST_CHECK enum status json_scan_string(struct json_scan *scan, struct text *text, struct error *err);
/* null is false. */
MUST_CHECK enum status json_scan_bool(struct json_scan *scan, bool *value, struct error *err);
MUST_CHECK enum status json_scan_u32(struct json_scan *scan, uint32_t *value, struct error *err);
/* A number as it is written. */
MUST_CHECK enum status json_scan_number(struct json_scan *scan, struct text *text, struct error *err);
MUST_CHECK enum status json_scan_skip(struct json_scan *scan, struct error *err);
/* Appends the value's own bytes to out (whose limit bounds it); NULL skips. */
MUST_CHECK enum status json_scan_raw(struct json_scan *scan, struct byte_buffer *out, struct error *err);
/* After the last value: only white space may follow. */
MUST_CHECK enum status json_scan_end(struct json_scan *scan, struct error *err);
MUST_CHECK enum status json_scan_fail(const struct json_scan *scan, const char *what, struct error *err);
