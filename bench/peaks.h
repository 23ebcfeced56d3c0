/*
 * peaks: what one thread's arithmetic units give at best, measured: products and additions of f32 and of bytes, in 10^9 operations a second
 * (a multiply-add is two).
 */
#pragma once

#include "base/cpu_info.h"

/* isa: available on this machine. 0: not known for the level. */
double peak_f32(enum cpu_isa isa);
double peak_int8(enum cpu_isa isa);
