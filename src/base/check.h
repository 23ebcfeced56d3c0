/*
 * check: programmer errors end the process with a place; world errors never come here (see status.h).
 *
 * CHECK is always on. ASSERT is for hot paths and is off when NDEBUG is set. STATIC_ASSERT pins sizes of on-disk structs.
 */
#pragma once

#include <assert.h>

#define STATIC_ASSERT(condition, text) _Static_assert(condition, text)

/* Writes the place to standard error and aborts. */
_Noreturn void check_failed(const char *condition, const char *file, int line);

#define CHECK(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
#define ASSERT(condition) ((void)sizeof(condition))
#else
#define ASSERT(condition) CHECK(condition)
#endif
