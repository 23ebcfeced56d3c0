/*
 * soak_faults: reads that misbehave and come in the end, for a soak of the whole engine.
 *
 * Model    Two layers. At the system call: a small share of the results, of io_uring or of pread as the reader wants it, becomes EIO,
 * EAGAIN, EINTR or a short read; what failed once passes the next time, so a right reader never gives up. The program that links this file
 *          defines the calls itself. Around the engine's queue: read_queue_faulty.h with pieces, delays and another order, and memory
 *          full of 0xA5 until it was read.
 * Threads  the counts may be read by any.
 */
#pragma once

#include "engine/engine_internal.h"

/* A wrapper for engine_set_queue_wrapper: both layers work from its call on. seed: borrowed until then. */
struct queue_wrapper soak_faults_wrapper(uint64_t *seed);
uint64_t soak_faults_errors(void); /* calls that were made to fail, and are to be made again */
uint64_t soak_faults_shorts(void); /* results that were cut */
