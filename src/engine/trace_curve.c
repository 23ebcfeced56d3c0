/* trace_curve: see trace_curve.h. */
#include "engine/trace_curve.h"

#include "base/byte_buffer.h"
#include "base/check.h"
#include "base/file.h"

#define WIDTH 720
#define HEIGHT 440
#define LEFT 64
#define TOP 48
#define PLOT_WIDTH 500
#define PLOT_HEIGHT 320
#define GRID 5 /* lines each way */

double trace_hit_rate(const struct trace_counts *counts) {
    uint64_t wants = counts->hits + counts->misses;
    return wants ? (double)counts->hits / (double)wants : 1;
}

static double x_of(const struct trace_curve *curve, uint64_t bytes) {
    return LEFT + PLOT_WIDTH * ((double)bytes / (double)curve->all_bytes);
}

static double y_of(double rate) { return TOP + PLOT_HEIGHT * (1 - rate); }

static enum status draw_axes(const struct trace_curve *curve, struct byte_buffer *out, struct error *err) {
    char size[32];
    TRY(byte_buffer_printf(out, err, "<text x=\"%d\" y=\"28\" font-size=\"15\">%s</text>\n", LEFT, curve->title));
    for (int i = 0; i <= GRID; i++) {
        double y = y_of((double)i / GRID), x = LEFT + (double)PLOT_WIDTH * i / GRID;
        (void)text_format_size(curve->all_bytes / GRID * (unsigned)i, size, sizeof size);
        TRY(byte_buffer_printf(out, err,
                               "<path d=\"M%d %.1fh%dM%.1f %dv%d\" stroke=\"#ddd\"/>\n"
                               "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d %%</text>\n"
                               "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                               LEFT, y, PLOT_WIDTH, x, TOP, PLOT_HEIGHT, LEFT - 8, y + 4, 100 * i / GRID, x, TOP + PLOT_HEIGHT + 20, size));
    }
    return byte_buffer_printf(out, err, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">memory for experts</text>\n", LEFT + PLOT_WIDTH / 2,
                              TOP + PLOT_HEIGHT + 44);
}

static enum status draw_policy(const struct trace_curve *curve, enum trace_policy policy, struct byte_buffer *out, struct error *err) {
    static const char *const colours[TRACE_POLICY_COUNT] = {"#1f77b4", "#2ca02c", "#d62728", "#555555"};
    TRY(byte_buffer_printf(out, err, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"", colours[policy]));
    for (uint32_t i = 0; i < curve->count; i++)
        TRY(byte_buffer_printf(out, err, "%.1f,%.1f ", x_of(curve, curve->points[i].cache_bytes),
                               y_of(trace_hit_rate(&curve->points[i].counts[policy]))));
    int y = TOP + 20 + 22 * (int)policy, x = LEFT + PLOT_WIDTH + 20;
    return byte_buffer_printf(out, err, "\"/>\n<path d=\"M%d %dh24\" stroke-width=\"2\" stroke=\"%s\"/><text x=\"%d\" y=\"%d\">%s</text>\n",
                              x, y - 4, colours[policy], x + 32, y, trace_policy_name(policy));
}

static enum status draw_run(const struct trace_curve *curve, struct byte_buffer *out, struct error *err) {
    for (uint32_t i = 0; i < curve->count; i++)
        if (curve->points[i].of_the_run)
            return byte_buffer_printf(out, err,
                                      "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n<circle cx=\"%d\" cy=\"%d\" r=\"4\"/>"
                                      "<text x=\"%d\" y=\"%d\">the run traced</text>\n",
                                      x_of(curve, curve->points[i].cache_bytes), y_of(trace_hit_rate(&curve->points[i].counts[TRACE_LRU])),
                                      LEFT + PLOT_WIDTH + 32, TOP + 16 + 22 * TRACE_POLICY_COUNT, LEFT + PLOT_WIDTH + 52,
                                      TOP + 20 + 22 * TRACE_POLICY_COUNT);
    return STATUS_OK;
}

static enum status draw(const struct trace_curve *curve, struct byte_buffer *out, struct error *err) {
    TRY(byte_buffer_printf(out, err,
                           "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
                           "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                           WIDTH, HEIGHT));
    TRY(draw_axes(curve, out, err));
    for (enum trace_policy p = 0; p < TRACE_POLICY_COUNT; p++)
        TRY(draw_policy(curve, p, out, err));
    TRY(draw_run(curve, out, err));
    return byte_buffer_printf(out, err, "</svg>\n");
}

enum status trace_curve_write(const struct trace_curve *curve, const char *path, struct error *err) {
    struct byte_buffer out;
    CHECK(curve->all_bytes > 0 && curve->count <= TRACE_POINTS_MAX);
    byte_buffer_init(&out, 1u << 20);
    enum status status = draw(curve, &out, err);
    if (status == STATUS_OK)
        status = file_write(path, out.data, out.size_bytes, err);
    byte_buffer_deinit(&out);
    return status;
}
