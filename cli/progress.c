#include "progress.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "out.h"

static const char *verb = "working";
static struct timespec began, last_drawn;
static volatile sig_atomic_t line_shown;        /* a line is on the terminal and has to be removed */
static volatile sig_atomic_t is_line_requested; /* SIGUSR1 came: the next step prints a line */

static double seconds_since(const struct timespec *timespec)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - timespec->tv_sec) + (double)(now.tv_nsec - timespec->tv_nsec) / 1e9;
}

void progress_begin(const char *what)
{
    verb = what;
    clock_gettime(CLOCK_MONOTONIC, &began);
    last_drawn = (struct timespec){0};
}

double progress_seconds(void) { return seconds_since(&began); }

static void add_time_left(struct text *text, double seconds)
{
    if (seconds >= 3600)
        text_addf(text, "  %.0f h %02d min left", (double)(long)(seconds / 3600), (int)(seconds / 60) % 60);
    else if (seconds >= 60)
        text_addf(text, "  %d min %02d s left", (int)seconds / 60, (int)seconds % 60);
    else
        text_addf(text, "  %d s left", (int)seconds + 1);
}

static void add_line(struct text *text, const char *name, uint64_t done, uint64_t total)
{
    double seconds = progress_seconds();
    text_addf(text, "%s  %s", verb, show_size(done));
    if (total)
        text_addf(text, " of %s", show_size(total));
    if (seconds > 0.2 && done) {
        double speed = (double)done / seconds;
        text_addf(text, "  %s/s", show_size((uint64_t)speed));
        bool is_speed_known = seconds >= 3 || done >= total / 20; /* a download begins slowly */
        if (total > done && is_speed_known)
            add_time_left(text, (double)(total - done) / speed);
    }
    if (name)
        text_addf(text, "  %s", escape_name(str_c(name)));
}

static void draw_line(const char *name, uint64_t done, uint64_t total, bool permanent)
{
    struct text t = {0};
    add_line(&t, name, done, total);
    text_make_ascii(&t, 0, GLYPHS_ALL);
    bool is_width_known = ui.width > 20 && ui.width < 500;
    size_t n = permanent ? t.len : text_len_fitting(t.ptr, t.len, is_width_known ? ui.width - 1 : 79);
    if (ui.err_tty)
        put_text(stderr, "\r\033[K");
    print_text(stderr, "%s%.*s%s", permanent ? "ckpt: " : "", (int)n, t.ptr, permanent ? "\n" : "");
    fflush(stderr);
    line_shown = !permanent;
    text_free(&t);
}

int progress_step(void *user, uint64_t done, uint64_t total)
{
    if (is_line_requested) {
        is_line_requested = 0;
        draw_line(user, done, total, true);
    }
    if (ui.err_tty && !ui.quiet && !ui.json && progress_seconds() >= 0.5 &&
        seconds_since(&last_drawn) >= 0.1) {
        draw_line(user, done, total, false);
        clock_gettime(CLOCK_MONOTONIC, &last_drawn);
    }
    return 0;
}

void progress_request_line(void) { is_line_requested = 1; }

void progress_wipe(void)
{
    static const char wipe[] = "\r\033[K";
    if (!line_shown)
        return;
    line_shown = 0;
    if (write(STDERR_FILENO, wipe, sizeof wipe - 1) < 0)
        return;
}
