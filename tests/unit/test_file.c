/* Tests of files: which are read and which are refused, and outputs that appear completely or not
 * at all. */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cli/output.h"
#include "common/file.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/unit.h"

#define IN_FOLDER(name) TEST_WITH(name, temporary_set_up, temporary_tear_down)

static smol_error error;

static const char *path_of(const char *name)
{
    snprintf(temporary.path, sizeof temporary.path, "%s/%s", temporary.folder, name);
    return temporary.path;
}

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* Opens a file in both ways: mapped and read. */
static smol_status open_view(bool map, const char *path, struct file_view *view)
{
    return map ? smol_file_map(path, view, &error) : smol_file_read(path, 1 << 20, view, &error);
}

/* ---- reading ---- */

IN_FOLDER(mapping_and_reading_give_the_bytes)
{
    static uint8_t bytes[200001];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    const char *path = temporary_write(&temporary, "file", bytes, sizeof bytes);
    int before = open_descriptors();
    for (int map = 0; map < 2; map++) {
        struct file_view view;
        assert_int_equal(open_view(map, path, &view), SMOL_OK);
        assert_int_equal(view.size, sizeof bytes);
        assert_int_equal(view.hold, map ? FILE_MAPPED : FILE_ALLOCATED);
        assert_memory_equal(view.data, bytes, sizeof bytes);
        assert_int_equal((uintptr_t)view.data % 64, 0);
        assert_int_equal(open_descriptors(), before + map); /* kept for smol_file_check */
        smol_file_close(&view);
        assert_int_equal(open_descriptors(), before);
        assert_null(view.data);
    }
}

IN_FOLDER(an_empty_file_has_data_that_may_be_pointed_at)
{
    const char *path = temporary_write(&temporary, "empty", "", 0);
    for (int map = 0; map < 2; map++) {
        struct file_view view;
        assert_int_equal(open_view(map, path, &view), SMOL_OK);
        assert_int_equal(view.size, 0);
        assert_non_null(view.data);
        smol_file_close(&view);
    }
}

TEST(a_zeroed_view_may_be_closed)
{
    struct file_view view = {0};
    smol_file_close(&view);
    assert_null(view.data);
}

/* Expects that neither way opens `path`, and that nothing stays open. */
static void refuses(const char *path, const char *part)
{
    int before = open_descriptors();
    for (int map = 0; map < 2; map++) {
        struct file_view view;
        assert_error(&error, open_view(map, path, &view), SMOL_ERROR_FILE, part);
        assert_non_null(strstr(error.message, path));
        assert_null(view.data);
        assert_int_equal(view.size, 0);
        assert_int_equal(open_descriptors(), before);
    }
}

IN_FOLDER(a_missing_file_is_named)
{
    refuses(path_of("missing"), "No such file");
}

IN_FOLDER(a_folder_is_no_file)
{
    refuses(temporary.folder, "a folder");
}

IN_FOLDER(a_pipe_without_a_writer_is_refused_at_once)
{
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    alarm(60); /* a read that waits for a writer would never end */
    refuses(temporary.path, "pipe");
    alarm(0);
}

/* Returns the kilobytes of this process that lie in huge pages. */
static unsigned long huge_kilobytes(void)
{
    unsigned long kilobytes = 0;
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "AnonHugePages: %lu", &kilobytes);
    if (file)
        fclose(file);
    return kilobytes;
}

/* Returns whether the system gives huge pages to those who ask. */
static bool has_huge_pages(void)
{
    char line[256] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (file) {
        if (!fgets(line, sizeof line, file))
            line[0] = '\0';
        fclose(file);
    }
    return line[0] && !strstr(line, "[never]");
}

IN_FOLDER(a_large_file_is_read_into_huge_pages)
{
    const size_t size = 32 << 20;
    struct file_view view;
    if (!has_huge_pages()) {
        print_message("skipped: this system has no transparent huge pages\n");
        skip();
    }
    char *bytes = calloc(1, size);
    const char *path = temporary_write(&temporary, "large", bytes, size);
    free(bytes);
    unsigned long before = huge_kilobytes();
    assert_int_equal(smol_file_read(path, size, &view, &error), SMOL_OK);
    assert_true(huge_kilobytes() > before);
    smol_file_close(&view);
}

TEST(a_device_is_no_file)
{
    refuses("/dev/zero", "a device");
}

IN_FOLDER(reading_stops_at_the_limit_and_not_before)
{
    struct file_view view;
    const char *path = temporary_write(&temporary, "file", "12345", 5);
    assert_int_equal(smol_file_read(path, 5, &view, &error), SMOL_OK);
    smol_file_close(&view);
    assert_error(&error, smol_file_read(path, 4, &view, &error), SMOL_ERROR_FILE,
                 "5 bytes, at most 4");
    assert_null(view.data);
}

IN_FOLDER(symbolic_links_are_followed)
{
    struct file_view view;
    temporary_write(&temporary, "file", "abc", 3);
    assert_int_equal(symlink("file", path_of("link")), 0);
    assert_int_equal(smol_file_map(temporary.path, &view, &error), SMOL_OK);
    assert_memory_equal(view.data, "abc", 3);
    smol_file_close(&view);
}

TEST(names_are_split_and_joined)
{
    assert_string_equal(smol_base_name("a/b/c.smol"), "c.smol");
    assert_string_equal(smol_base_name("c.smol"), "c.smol");
    assert_string_equal(smol_base_name("a/"), "");
    static const char *const folders[][2] = {{"a/b/c", "a/b/"}, {"c", "."},    {"/c", "/"},
                                             {"a/", "a/"},      {"./c", "./"}, {"", "."}};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char *folder = smol_path_folder(folders[i][0]);
        assert_string_equal(folder, folders[i][1]);
        free(folder);
    }
    char *path = smol_path_join("a/b", "c");
    assert_string_equal(path, "a/b/c");
    free(path);
}

/* ---- writing ---- */

static void holds(const char *path, const char *text)
{
    struct file_view view;
    if (smol_file_read(path, 1 << 20, &view, &error))
        fail_msg("%s", error.message);
    assert_int_equal(view.size, strlen(text));
    assert_memory_equal(view.data, text, view.size);
    smol_file_close(&view);
}

static struct output start(const char *path, bool force)
{
    struct output output;
    if (smol_output_open(path, force, &output, &error))
        fail_msg("%s", error.message);
    return output;
}

static void write_text(struct output *output, uint64_t offset, const char *text)
{
    assert_int_equal(smol_output_write(output, offset, text, strlen(text), &error), SMOL_OK);
}

IN_FOLDER(an_output_appears_when_it_is_committed_and_not_before)
{
    int before = open_descriptors();
    const char *path = path_of("out");
    struct output output = start(path, false);
    write_text(&output, 3, "def");
    write_text(&output, 0, "abc"); /* any order */
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(smol_output_commit(&output, &error), SMOL_OK);
    holds(path, "abcdef");
    assert_int_equal(temporary_count(&temporary), 1);
    smol_output_discard(&output); /* safe after a commit */
    holds(path, "abcdef");
    assert_int_equal(open_descriptors(), before);
}

IN_FOLDER(a_discarded_output_leaves_nothing_behind)
{
    int before = open_descriptors();
    struct output output = start(path_of("out"), false);
    write_text(&output, 0, "abc");
    assert_int_equal(temporary_count(&temporary), 1);
    smol_output_discard(&output);
    assert_int_equal(temporary_count(&temporary), 0);
    assert_int_equal(open_descriptors(), before);
}

IN_FOLDER(an_existing_file_is_replaced_only_by_force)
{
    struct output output;
    const char *path = temporary_write_text(&temporary, "out", "old");
    assert_error(&error, smol_output_open(path, false, &output, &error), SMOL_ERROR_FILE,
                 "--force");
    smol_output_discard(&output); /* safe after a failed open */
    holds(path, "old");
    output = start(path, true);
    write_text(&output, 0, "new");
    holds(path, "old");
    assert_int_equal(smol_output_commit(&output, &error), SMOL_OK);
    holds(path, "new");
    assert_int_equal(temporary_count(&temporary), 1);
}

IN_FOLDER(a_dangling_link_counts_as_existing_and_is_replaced_itself)
{
    struct output output;
    assert_int_equal(symlink("nowhere", path_of("out")), 0);
    assert_error(&error, smol_output_open(temporary.path, false, &output, &error), SMOL_ERROR_FILE,
                 "exists");
    output = start(temporary.path, true);
    write_text(&output, 0, "new");
    assert_int_equal(smol_output_commit(&output, &error), SMOL_OK);
    struct stat info;
    assert_int_equal(lstat(temporary.path, &info), 0);
    assert_true(S_ISREG(info.st_mode));
    assert_int_not_equal(access(path_of("nowhere"), F_OK), 0);
}

IN_FOLDER(a_folder_is_never_overwritten)
{
    struct output output;
    assert_int_equal(mkdir(path_of("out"), 0700), 0);
    for (int force = 0; force < 2; force++) /* the file must not be removed either */
        assert_error(&error, smol_output_open(temporary.path, force, &output, &error),
                     SMOL_ERROR_FILE, "is a folder");
    assert_int_equal(temporary_count(&temporary), 1);
}

IN_FOLDER(a_target_without_a_name_is_refused)
{
    struct output output;
    assert_error(&error, smol_output_open("", true, &output, &error), SMOL_ERROR_FILE,
                 "empty name");
    assert_error(&error, smol_output_open("-", true, &output, &error), SMOL_ERROR_FILE,
                 "name a file");
}

IN_FOLDER(a_target_in_a_missing_folder_is_refused)
{
    struct output output;
    assert_error(&error, smol_output_open(path_of("no/out"), false, &output, &error),
                 SMOL_ERROR_FILE, "cannot create (No such file");
    smol_output_discard(&output);
}

IN_FOLDER(the_mode_is_what_the_umask_leaves)
{
    static const mode_t masks[] = {0, 022, 027, 077};
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        mode_t old = umask(masks[i]);
        struct output output = start(path_of("out"), true);
        assert_int_equal(smol_output_commit(&output, &error), SMOL_OK);
        assert_int_equal(umask(old), masks[i]); /* the mask is unchanged */
        struct stat info;
        assert_int_equal(stat(temporary.path, &info), 0);
        assert_int_equal(info.st_mode & 07777, 0666 & ~masks[i]);
    }
}

IN_FOLDER(a_failing_write_keeps_the_old_file_whole)
{
    static const char text[4096];
    const char *path = temporary_write_text(&temporary, "out", "old");
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){1000, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    struct output output = start(path, true);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    smol_status status = smol_output_write(&output, 0, text, sizeof text, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_error(&error, status, SMOL_ERROR_FILE, "cannot write (File too large)");
    assert_non_null(strstr(error.message, path)); /* the target's name, not the temporary's */
    assert_null(strstr(error.message, ".tmp-"));
    smol_output_discard(&output);
    holds(path, "old");
    assert_int_equal(temporary_count(&temporary), 1);
}

IN_FOLDER(a_failing_commit_keeps_the_old_file_whole)
{
    const char *path = temporary_write_text(&temporary, "out", "old");
    struct output output = start(path, true);
    write_text(&output, 0, "new");
    assert_int_equal(unlink(smol_output_temporary(&output)), 0); /* so that renaming fails */
    assert_error(&error, smol_output_commit(&output, &error), SMOL_ERROR_FILE, "rename");
    holds(path, "old");
    assert_int_equal(temporary_count(&temporary), 1);
}

IN_FOLDER(two_writers_of_one_file_do_not_mix)
{
    const char *path = path_of("out");
    struct output a = start(path, false), b = start(path, true);
    write_text(&a, 0, "aaaa");
    write_text(&b, 0, "bb");
    assert_int_equal(smol_output_commit(&a, &error), SMOL_OK);
    holds(path, "aaaa");
    assert_int_equal(smol_output_commit(&b, &error), SMOL_OK);
    holds(path, "bb");
    assert_int_equal(temporary_count(&temporary), 1);
}

IN_FOLDER(a_file_that_appears_meanwhile_is_kept_without_force)
{
    struct output output = start(path_of("out"), false);
    write_text(&output, 0, "new");
    const char *path = temporary_write_text(&temporary, "out", "another's");
    assert_error(&error, smol_output_commit(&output, &error), SMOL_ERROR_FILE,
                 "another process has just created it");
    holds(path, "another's");
    assert_int_equal(temporary_count(&temporary), 1);
}

/* Runs in a process of its own, which a signal ends while two outputs are open. */
IN_FOLDER(a_signal_removes_the_temporaries_and_ends_the_process)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const char *path = temporary_write_text(&temporary, "out", "old");
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        pid_t child = fork();
        if (child == 0) {
            signal(signals[i], SIG_DFL);
            smol_output_remove_on_signals();
            start(path, true);
            start(path_of("other"), false);
            raise(signals[i]);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i]);
        assert_int_equal(temporary_count(&temporary), 1);
        holds(path_of("out"), "old");
    }
}

TEST(an_ignored_signal_stays_ignored)
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGHUP, SIG_IGN); /* nohup */
        smol_output_remove_on_signals();
        raise(SIGHUP);
        _exit(7);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(void)
{
    return run_all_tests("file", NULL, NULL);
}
