/*
 * The progress line: one line on a terminal, redrawn each second.
 *
 * `tenant-metrics running 00:01:23 in 1.2M/s out 3.1K/s lag 12.3K wm
 * 12:00:05 (-3.2s) reload 0`. Only the coordinator draws.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "run/job.h"

enum { REDRAW_MS = 1000, HELD_MS = 2000 };

static struct {
    int64_t last_ms;
    uint64_t in, out;
} line;

/* 1234567 -> "1.2M". */
static void
put_short(char *to, size_t size, double n)
{
    static const char units[] = {0, 'K', 'M', 'G', 'T'};
    size_t u = 0;

    while (n >= 1000 && u + 1 < sizeof units) {
        n /= 1000;
        u++;
    }
    if (u == 0)
        (void)snprintf(to, size, "%.0f", n);
    else
        (void)snprintf(to, size, "%.1f%c", n, units[u]);
}

static void
sum_all(const struct job *j, uint64_t *in, uint64_t *out, int64_t *wm,
        int64_t *lag)
{
    const struct plan *p = j->plan;
    struct step_sums s;
    uint32_t i;

    *in = *out = 0;
    *wm = WM_MAX;
    *lag = -1;
    for (i = 0; i < p->step_count; i++) {
        if (p->steps[i].kind != STEP_SOURCE && p->steps[i].kind != STEP_SINK)
            continue;
        step_sums(j, p->steps[i].logical, &s);
        if (p->steps[i].kind == STEP_SINK) {
            *out += s.records_out;
            *wm = s.watermark < *wm ? s.watermark : *wm;
            continue;
        }
        *in += s.records_in;
        if (j->ops.source_types[i]->lag != NULL) {
            int64_t l = j->ops.source_types[i]->lag(j->ops.sources[i]);

            if (l >= 0)
                *lag = *lag < 0 ? l : *lag + l;
        }
    }
}

static void
put_watermark(char *to, size_t size, int64_t wm)
{
    time_t t = (time_t)(wm / 1000);
    char clock[16];
    struct tm tm;

    to[0] = '\0';
    if (wm == WM_NONE || wm == WM_MAX || gmtime_r(&t, &tm) == NULL)
        return;
    (void)strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    (void)snprintf(to, size, " wm %s (%+.1fs)", clock,
                   (double)(wm - clock_wall_ms()) / 1000.0);
}

/* How long the backlog takes at the rate of now. */
static void
put_seconds(char *to, size_t size, int64_t lag, double rate)
{
    size_t len = strlen(to);

    if (lag > 0 && rate >= 1 && len < size)
        (void)snprintf(to + len, size - len, " (%.0fs)", (double)lag / rate);
}

/* " ckpt 17 2s ago" */
static void
put_checkpoint(char *to, size_t size, const struct run *run, int64_t now_ms)
{
    to[0] = '\0';
    if (run->completed_mono_ms != 0)
        (void)snprintf(to, size, " ckpt %llu %llds ago",
                       (unsigned long long)run->home.status.complete,
                       (long long)((now_ms - run->completed_mono_ms) / 1000));
}

/* The partition that has held the watermark longest, if for long enough. */
static void
put_holder(char *to, size_t size, const struct job *j, int64_t now_ms)
{
    int64_t oldest = now_ms - HELD_MS;
    uint32_t i;

    to[0] = '\0';
    for (i = 0; i < j->plan->step_count; i++) {
        int64_t since;
        int32_t partition;
        uint16_t topic;

        if (j->ops.clocks[i] == NULL ||
            !wm_source_holder(j->ops.clocks[i], &topic, &partition, &since) ||
            since > oldest)
            continue;
        oldest = since;
        (void)snprintf(to, size, "; held by %.100s[%d] for %ds",
                       topic_name(topic), (int)partition,
                       (int)((now_ms - since) / 1000));
    }
}

void
progress_draw(struct job *j, int64_t now_ms)
{
    char in_s[16], out_s[16], lag_s[32] = "", wm_s[64], text[400];
    char held_s[160], ckpt_s[48];
    int64_t wm, lag, up = (now_ms - j->run->started_mono_ms) / 1000;
    uint64_t in, out;
    double secs = (double)(now_ms - line.last_ms) / 1000.0;
    int n;

    if (now_ms - line.last_ms < REDRAW_MS)
        return;
    sum_all(j, &in, &out, &wm, &lag);
    if (line.last_ms == 0)
        secs = 1;
    put_short(in_s, sizeof in_s, (double)(in - line.in) / secs);
    put_short(out_s, sizeof out_s, (double)(out - line.out) / secs);
    if (lag >= 0) {
        (void)snprintf(lag_s, sizeof lag_s, " lag ");
        put_short(lag_s + 5, sizeof lag_s - 5, (double)lag);
    }
    put_seconds(lag_s, sizeof lag_s, lag, (double)(in - line.in) / secs);
    put_checkpoint(ckpt_s, sizeof ckpt_s, j->run, now_ms);
    put_watermark(wm_s, sizeof wm_s, wm);
    put_holder(held_s, sizeof held_s, j, now_ms);
    n = snprintf(text, sizeof text,
                 "%.80s %s %02d:%02d:%02d in %s/s out %s/s%s%s%s "
                 "reload %llu%s",
                 j->plan->name, j->stopping ? "stopping" : "running",
                 (int)(up / 3600), (int)(up / 60 % 60), (int)(up % 60), in_s,
                 out_s, lag_s, wm_s, ckpt_s,
                 (unsigned long long)reload_number(j->run), held_s);
    line.last_ms = now_ms;
    line.in = in;
    line.out = out;
    if (n > 0)
        log_progress(text);
}

void
progress_clear(struct job *j)
{
    (void)j;
    log_set_progress(false);
}
