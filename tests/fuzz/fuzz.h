/*
 * fuzz: the way in that libFuzzer and replay.c share. A fuzzer is one file that defines it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Feeds one input to the code under test; returns 0. Anything but a plain return (crash, check, sanitizer report) is a finding. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);
