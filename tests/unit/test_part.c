/* Tests of outputs that are kept while unfinished: their contents survive the end of the writer,
 * and two processes never write the same one at a time. */
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cli/output.h"
#include "common/file.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/unit.h"

static smol_error error;
static char target[128], part[128];

static int set_up(void **state)
{
    temporary_set_up(state);
    snprintf(target, sizeof target, "%s/out", temporary.folder);
    snprintf(part, sizeof part, "%s/out.part", temporary.folder);
    return 0;
}

#define IN_FOLDER(name) TEST_WITH(name, set_up, temporary_tear_down)

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

static void holds(const char *path, const char *text)
{
    struct file_view view;
    assert_int_equal(smol_file_read(path, 1 << 20, &view, &error), SMOL_OK);
    assert_int_equal(view.size, strlen(text));
    assert_memory_equal(view.data, text, view.size);
    smol_file_close(&view);
}

static struct output go_on(bool force)
{
    struct output output;
    if (smol_output_resume(target, force, &output, &error))
        fail_msg("%s", error.message);
    return output;
}

static void write_text(struct output *output, uint64_t offset, const char *text)
{
    assert_int_equal(smol_output_write(output, offset, text, strlen(text), &error), SMOL_OK);
}

static void refuses(bool force, const char *reason)
{
    struct output output;
    assert_error(&error, smol_output_resume(target, force, &output, &error), SMOL_ERROR_FILE,
                 reason);
    smol_output_discard(&output); /* must be safe */
}

/* --- one writer after another ----------------------------------------------------------------- */

IN_FOLDER(what_is_unfinished_is_kept_read_and_finished)
{
    struct output output = go_on(false);
    write_text(&output, 0, "begun");
    assert_string_equal(smol_output_temporary(&output), part);
    smol_output_discard(&output);
    holds(part, "begun");
    assert_false(exists(target));

    output = go_on(false);
    char text[16] = "";
    size_t n;
    assert_int_equal(smol_output_read(&output, 1, text, sizeof text, &n, &error), SMOL_OK);
    assert_int_equal(n, 4);
    assert_string_equal(text, "egun");
    assert_int_equal(smol_output_read(&output, 5, text, sizeof text, &n, &error), SMOL_OK);
    assert_int_equal(n, 0);
    write_text(&output, 5, " and done, and more");
    assert_int_equal(smol_output_truncate(&output, 14, &error), SMOL_OK);
    assert_int_equal(smol_output_commit(&output, &error), SMOL_OK);
    holds(target, "begun and done");
    assert_false(exists(part));
}

IN_FOLDER(what_is_forgotten_goes)
{
    struct output output = go_on(false);
    smol_output_forget(&output);
    smol_output_discard(&output);
    assert_false(exists(part) || exists(target));
}

IN_FOLDER(a_target_that_exists_is_replaced_only_by_force)
{
    temporary_write_text(&temporary, "out", "old");
    refuses(false, "exists already");
    assert_false(exists(part));
    struct output output = go_on(true);
    write_text(&output, 0, "new");
    holds(target, "old");
    assert_int_equal(smol_output_commit(&output, &error), SMOL_OK);
    holds(target, "new");
}

IN_FOLDER(a_part_is_kept_when_the_target_appears_meanwhile)
{
    struct output output = go_on(false);
    write_text(&output, 0, "mine");
    temporary_write_text(&temporary, "out", "theirs");
    assert_int_equal(smol_output_commit(&output, &error), SMOL_ERROR_FILE);
    holds(target, "theirs");
    holds(part, "mine");
}

IN_FOLDER(a_part_that_is_no_file_is_refused_and_left)
{
    char other[128];
    snprintf(other, sizeof other, "%s/other", temporary.folder);
    temporary_write_text(&temporary, "other", "precious");
    assert_int_equal(symlink(other, part), 0);
    refuses(false, "cannot open and lock");
    holds(other, "precious");
    assert_int_equal(unlink(part), 0);
    assert_int_equal(mkfifo(part, 0600), 0);
    refuses(false, "not a regular file");
    assert_int_equal(unlink(part), 0);
    assert_int_equal(mkdir(part, 0700), 0);
    refuses(false, "cannot open and lock");
    assert_true(exists(part));
}

/* --- concurrent writers ------------------------------------------------------------------ */

IN_FOLDER(a_part_that_is_being_written_is_refused)
{
    struct output output = go_on(false);
    write_text(&output, 0, "mine");
    refuses(false, "another process is writing it");
    holds(part, "mine");
    smol_output_discard(&output);
    output = go_on(false);
    smol_output_discard(&output);
}

static bool finish_before_flock;

/* Replaces libc's function: lets another process finish between opening the part and locking it. */
int flock(int fd, int operation)
{
    if (finish_before_flock) {
        finish_before_flock = false;
        assert_int_equal(rename(part, target), 0);
    }
    return (int)syscall(SYS_flock, fd, operation);
}

IN_FOLDER(a_part_that_was_finished_a_moment_ago_is_not_written)
{
    temporary_write_text(&temporary, "out.part", "theirs");
    finish_before_flock = true;
    struct output output = go_on(false);
    write_text(&output, 0, "mine");
    holds(target, "theirs");
    holds(part, "mine");
    smol_output_discard(&output);
}

IN_FOLDER(a_signal_keeps_the_part)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGKILL};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (signals[i] != SIGKILL)
                signal(signals[i], SIG_DFL); /* the parent process may ignore it */
            smol_output_remove_on_signals();
            struct output output = go_on(false);
            write_text(&output, i, "x");
            raise(signals[i]);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
    }
    holds(part, "xxxx");
}

enum { ROUNDS = 100, TEXT = 4096 };

/* Completes the target ROUNDS times, with only its own letter in it. */
static void write_again_and_again(char letter)
{
    static char text[TEXT];
    memset(text, letter, sizeof text);
    for (int i = 0; i < ROUNDS;) {
        struct output output;
        if (smol_output_resume(target, true, &output, &error))
            continue; /* the other process is writing */
        for (int at = 0; at < TEXT; at += TEXT / 8)
            smol_output_write(&output, (uint64_t)at, text, TEXT / 8, &error);
        if (smol_output_commit(&output, &error))
            _exit(1);
        i++;
    }
    _exit(0);
}

static void holds_one_letter(void)
{
    struct file_view view;
    assert_int_equal(smol_file_read(target, 1 << 20, &view, &error), SMOL_OK);
    assert_int_equal(view.size, TEXT);
    for (size_t i = 1; i < view.size; i++)
        assert_int_equal(view.data[i], view.data[0]);
    smol_file_close(&view);
}

IN_FOLDER(two_processes_never_mix)
{
    int status, running = 2;
    for (int i = 0; i < 2; i++)
        if (fork() == 0)
            write_again_and_again((char)('a' + i));
    while (running > 0) {
        if (exists(target))
            holds_one_letter();
        if (waitpid(-1, &status, WNOHANG) > 0) {
            assert_int_equal(status, 0);
            running--;
        }
    }
    holds_one_letter();
    assert_false(exists(part));
}

int main(void)
{
    return run_all_tests("part", NULL, NULL);
}
