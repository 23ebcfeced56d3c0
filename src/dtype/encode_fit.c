/*
 * encode_fit: trial scales, the best scale for their codes, the smallest error. Sums run in 8 lanes that are added in order.
 */
#include "dtype/encode_fit.h"

#include <math.h>
#include <stdbool.h>

#include "base/check.h"

#define LANES 8
#define STEPS 5 /* trials on each side of the plain scale; 9 take twice the time for 1 % less error */

static float add_lanes(const float lanes[LANES]) {
    float sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += lanes[i];
    return sum;
}

/* ---- a scale ---- */

struct scale_sums {
    float xq, qq;
};

static struct scale_sums sums_of_codes(const float *x, size_t count, float inverse, float low, float high) {
    float xq[LANES] = {0}, qq[LANES] = {0};
    for (size_t i = 0; i < count; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float q = fit_clamp(fit_round(x[i + (size_t)l] * inverse), low, high);
            xq[l] += x[i + (size_t)l] * q;
            qq[l] += q * q;
        }
    return (struct scale_sums){add_lanes(xq), add_lanes(qq)};
}

float fit_scale(const float *x, size_t count, float low, float high) {
    float extreme = 0, best_scale = 0, best_gain = 0;
    CHECK(count % LANES == 0 && low < 0 && high > 0);
    for (size_t i = 0; i < count; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    if (fabsf(extreme) < 1e-30f)
        return 0;
    /* the extreme at the longer end of the codes, and some codes less or more */
    for (int side = 0; side < 2; side++)
        for (int step = -STEPS; step <= STEPS; step++) {
            float target = side == 0 ? low : high, at = target * (1 + 0.02f * (float)step);
            struct scale_sums s = sums_of_codes(x, count, at / extreme, low, high);
            /* error = sum x^2 - xq^2 / qq: the larger the gain, the smaller the error */
            if (s.qq > 0 && s.xq * s.xq > best_gain * s.qq) {
                best_gain = s.xq * s.xq / s.qq;
                best_scale = s.xq / s.qq;
            }
        }
    return best_scale;
}

/* ---- a scale and an offset ---- */

struct line_sums {
    float q, qq, xq;
};

static struct line_sums line_sums_of(const float *x, size_t count, float high, float inverse, float offset) {
    float q1[LANES] = {0}, q2[LANES] = {0}, xq[LANES] = {0};
    for (size_t i = 0; i < count; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float q = fit_clamp(fit_round((x[i + (size_t)l] - offset) * inverse), 0, high);
            q1[l] += q;
            q2[l] += q * q;
            xq[l] += x[i + (size_t)l] * q;
        }
    return (struct line_sums){add_lanes(q1), add_lanes(q2), add_lanes(xq)};
}

float fit_line_error(const float *x, size_t count, float high, struct fit_line line) {
    float sum[LANES] = {0}, inverse = line.scale > 0 ? 1 / line.scale : 0;
    for (size_t i = 0; i < count; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float q = fit_clamp(fit_round((x[i + (size_t)l] - line.offset) * inverse), 0, high);
            float rest = x[i + (size_t)l] - line.scale * q - line.offset;
            sum[l] += rest * rest;
        }
    return add_lanes(sum);
}

/* The line of least squares through (code, x); offsets above 0 are cut off when they may not be. */
static struct fit_line solve(const struct line_sums *s, float sum_x, float count, bool offset_below) {
    struct fit_line line = {0};
    float determinant = count * s->qq - s->q * s->q;
    if (determinant > 0) {
        line.scale = (count * s->xq - sum_x * s->q) / determinant;
        line.offset = (s->qq * sum_x - s->q * s->xq) / determinant;
    }
    if (offset_below && line.offset > 0) {
        line.offset = 0;
        line.scale = s->qq > 0 ? s->xq / s->qq : 0;
    }
    if (line.scale < 0)
        line.scale = 0;
    return line;
}

struct fit_line fit_line(const float *x, size_t count, float high, bool offset_below) {
    float low_x = x[0], high_x = x[0], sums[LANES] = {0};
    CHECK(count % LANES == 0 && count <= FIT_GROUP_MAX);
    for (size_t i = 0; i < count; i++) {
        low_x = x[i] < low_x ? x[i] : low_x;
        high_x = x[i] > high_x ? x[i] : high_x;
        sums[i % LANES] += x[i];
    }
    if (offset_below && low_x > 0)
        low_x = 0;
    if (!(high_x - low_x > 1e-30f))
        return (struct fit_line){.scale = 0, .offset = low_x};
    float sum_x = add_lanes(sums);
    struct fit_line best = {.scale = (high_x - low_x) / high, .offset = low_x};
    float best_error = fit_line_error(x, count, high, best);
    for (int step = -STEPS; step <= STEPS; step++) {
        struct fit_line line = {.scale = (high_x - low_x) / (high * (1 + 0.03f * (float)step)), .offset = low_x};
        for (int round = 0; round < 2; round++) { /* codes, their best line, codes of that line, theirs */
            struct line_sums s = line_sums_of(x, count, high, 1 / line.scale, line.offset);
            line = solve(&s, sum_x, (float)count, offset_below);
            if (!(line.scale > 1e-30f))
                break;
            float error = fit_line_error(x, count, high, line);
            if (error < best_error) {
                best_error = error;
                best = line;
            }
        }
    }
    return best;
}
