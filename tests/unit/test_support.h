/*
 * test_support: what every cmocka program includes, in the order that cmocka.h wants, and checks for enum status with the error's text.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/status.h"

/* Fails with the error's text when `expression` is not STATUS_OK. `error` is a struct error. */
#define ASSERT_OK(expression, error)                                              \
    do {                                                                          \
        enum status got_ = (expression);                                          \
        if (got_ != STATUS_OK)                                                    \
            fail_msg("%s: %s: %s", #expression, status_name(got_), (error).text); \
    } while (0)

/* The expression must fail with `wanted`, and the error must agree and have a text. */
#define ASSERT_FAILS(expression, wanted, error)                                                     \
    do {                                                                                            \
        enum status got_ = (expression);                                                            \
        if (got_ != (wanted))                                                                       \
            fail_msg("%s: got %s, wanted %s", #expression, status_name(got_), status_name(wanted)); \
        assert_int_equal((error).status, (wanted));                                                 \
        assert_true((error).text[0] != 0);                                                          \
    } while (0)
