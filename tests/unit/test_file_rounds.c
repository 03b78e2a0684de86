/* File sink in rounds: what is published when, and what a start refuses. */
#include <sys/resource.h>
#include <sys/stat.h>

#include "file_job.h"

static void
a_part_appears_with_the_round_behind_its_closing(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    (void)snprintf(j.more, sizeof j.more, ROLL);
    start(&j, 1);
    put(&j, 0, 1);
    assert_int_equal(file_sink_type.tick(j.s, &j.e), 0);
    assert_string_equal(listing(&j), TEMP(P0_1) "\n");
    prepare_round(&j);
    put(&j, 0, 2); /* behind the barrier */
    assert_int_equal(file_sink_type.committed(j.s, 1, false, &j.e), 0);
    assert_string_equal(listing(&j), TEMP(P0_2) "\n" P0_1 "\n");
    assert_string_equal(content(&j, P0_1), "{\"i\":101}\n");
    complete_round(&j);
    assert_string_equal(listing(&j), P0_1 "\n" P0_2 "\n");
    assert_string_equal(content(&j, ".streamlua"),
                        "streamlua file sink 1\nlineage " OURS
                        "\nround 2\nfinal no\n");
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
a_restore_cuts_the_open_part_and_its_task_goes_on_with_it(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    start(&j, 2);
    put(&j, 0, 1);
    put(&j, 1, 2);
    complete_round(&j);
    put(&j, 0, 3);
    assert_int_equal(file_sink_type.flush(j.t[0], &j.e), 0);
    assert_string_equal(content(&j, TEMP(P0_1)), "{\"i\":101}\n{\"i\":103}\n");
    stop(&j);

    start(&j, 2);
    assert_string_equal(content(&j, TEMP(P0_1)), "{\"i\":101}\n");
    put(&j, 0, 3);
    finish(&j);
    assert_string_equal(listing(&j), P0_1 "\n" P1_1 "\n");
    assert_string_equal(content(&j, P0_1), "{\"i\":101}\n{\"i\":103}\n");
    assert_string_equal(content(&j, P1_1), "{\"i\":102}\n");
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
what_no_complete_round_knows_is_removed_at_the_next_start(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    (void)snprintf(j.more, sizeof j.more, ROLL);
    start(&j, 1);
    put(&j, 0, 1); /* before the first round */
    stop(&j);
    assert_string_equal(listing(&j), TEMP(P0_1) "\n");
    start(&j, 1);
    assert_string_equal(listing(&j), "");
    put(&j, 0, 1);
    complete_round(&j);
    put(&j, 0, 2);
    put(&j, 0, 3);
    stop(&j);
    start(&j, 1);
    assert_null(strstr(listing(&j), "inprogress"));
    put(&j, 0, 2);
    finish(&j);
    assert_null(strstr(listing(&j), "inprogress"));
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
a_round_that_was_complete_is_published_by_the_next_start(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    (void)snprintf(j.more, sizeof j.more, ROLL);
    start(&j, 1);
    put(&j, 0, 1);
    put(&j, 0, 2);
    prepare_round(&j); /* complete, but the sink did not hear of it */
    stop(&j);
    assert_int_equal(rename(help_path(&j.a, j.dir, TEMP(P0_1)),
                            help_path(&j.a, j.dir, P0_1)),
                     0); /* it came as far as the first */
    start(&j, 1);
    assert_string_equal(listing(&j), P0_1 "\n" P0_2 "\n");
    assert_non_null(strstr(content(&j, ".streamlua"), "\nround 1\n"));
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
parts_of_subtasks_that_vanish_are_published_by_the_next_round(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    start(&j, 3);
    put(&j, 0, 1);
    put(&j, 1, 2);
    put(&j, 2, 3);
    complete_round(&j);
    put(&j, 2, 4); /* lost with the process */
    stop(&j);

    start(&j, 1);
    assert_null(strstr(listing(&j), "\npart"));
    stop(&j); /* as often as it likes */
    start(&j, 1);
    complete_round(&j);
    assert_string_equal(listing(&j),
                        TEMP(P0_1) "\n" P1_1 "\npart-2-000001.jsonl\n");
    assert_string_equal(content(&j, "part-2-000001.jsonl"), "{\"i\":103}\n");
    stop(&j);
    start(&j, 3); /* and back */
    put(&j, 0, 5);
    put(&j, 2, 6);
    finish(&j);
    assert_string_equal(content(&j, P0_1), "{\"i\":101}\n{\"i\":105}\n");
    assert_string_equal(content(&j, "part-2-000002.jsonl"), "{\"i\":106}\n");
    assert_null(strstr(listing(&j), "inprogress"));
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
a_part_of_another_format_is_closed_instead_of_gone_on_with(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    start(&j, 1);
    put(&j, 0, 1);
    complete_round(&j);
    stop(&j);
    (void)snprintf(j.more, sizeof j.more,
                   ",\"format\":\"csv\",\"header\":true,\"fields\":"
                   "[{\"name\":\"i\",\"type\":\"int\"}]");
    start(&j, 1);
    put(&j, 0, 2);
    finish(&j);
    assert_string_equal(listing(&j), P0_1 "\npart-0-000002.csv\n");
    assert_string_equal(content(&j, "part-0-000002.csv"), "i\n102\n");
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
a_final_round_leaves_nothing_in_progress(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    start(&j, 2);
    put(&j, 0, 1);
    put(&j, 1, 2);
    complete_round(&j);
    put(&j, 1, 3);
    finish(&j);
    assert_string_equal(listing(&j), P0_1 "\n" P1_1 "\n");
    assert_non_null(strstr(content(&j, ".streamlua"), "round 2\nfinal yes\n"));
    stop(&j);
    /* The readers took them; the job goes on all the same. */
    remove_file(&j, P0_1);
    remove_file(&j, P1_1);
    start(&j, 2);
    put(&j, 0, 4);
    stop(&j);
    start(&j, 2);
    put(&j, 0, 4);
    finish(&j);
    assert_string_equal(listing(&j), "part-0-000003.jsonl\n");
    job_fini(&j);
    help_dir_remove(&dir);
}

/* The job died behind its last round, before it told its sinks; it is not run
 * again, only its sink is opened and closed. */
static void
a_finished_job_publishes_what_it_had_not_when_it_is_started_again(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    start(&j, 2);
    put(&j, 0, 1);
    put(&j, 1, 2);
    prepare_round(&j); /* that was the last one */
    put(&j, 1, 3);     /* behind its barrier */
    stop(&j);
    assert_string_equal(listing(&j), TEMP(P0_1) "\n" TEMP(P1_1) "\n");

    j.ckpt.finished = true;
    start(&j, 0);
    stop(&j);

    assert_string_equal(listing(&j), P0_1 "\n" P1_1 "\n");
    assert_string_equal(content(&j, P1_1), "{\"i\":102}\n");
    assert_non_null(strstr(content(&j, ".streamlua"), "round 1\nfinal yes\n"));
    /* From then on nothing is looked for: the readers may have it all. */
    remove_file(&j, P0_1);
    remove_file(&j, ".streamlua");
    start(&j, 0);
    stop(&j);
    assert_string_equal(listing(&j), P1_1 "\n");
    remove_file(&j, P1_1);
    assert_int_equal(rmdir(j.dir), 0);
    start(&j, 0);
    stop(&j);
    assert_int_not_equal(access(j.dir, F_OK), 0);
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
a_final_round_made_of_barriers_cuts_what_came_behind_them(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    (void)snprintf(j.more, sizeof j.more, ",\"roll\":{\"size\":30}");
    start(&j, 2);
    put(&j, 0, 1);
    put(&j, 1, 2);
    prepare_round(&j);
    put(&j, 0, 3); /* in the open part */
    put(&j, 0, 4); /* closes it */
    put(&j, 0, 5); /* the next one */
    put(&j, 1, 6);
    file_sink_type.task_free(&j.t[1]);
    assert_int_equal(file_sink_type.committed(j.s, 1, true, &j.e), 0);
    assert_string_equal(listing(&j), P0_1 "\n" P1_1 "\n");
    assert_string_equal(content(&j, P0_1), "{\"i\":101}\n");
    assert_string_equal(content(&j, P1_1), "{\"i\":102}\n");
    stop(&j);
    /* The same if it died between the renames and the marker. */
    write_marker(&j, OURS, 0);
    start(&j, 2);
    stop(&j);
    write_file(&j, ".streamlua",
               "streamlua file sink 1\nlineage " OURS "\nround 1\nfinal yes\n");
    remove_file(&j, P0_1); /* taken by its reader */
    start(&j, 2);
    finish(&j);
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
a_task_that_ended_early_publishes_with_the_round_it_is_in(void **state)
{
    struct step_blobs given = {0};
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    start(&j, 2);
    put(&j, 0, 1);
    put(&j, 1, 2);
    give(&j, 1, &given);
    /* It ends behind the barrier of round 1: its row is not in it. */
    put(&j, 1, 3);
    assert_int_equal(file_sink_type.flush(j.t[1], &j.e), 0);
    buf_init(&j.out);
    assert_int_equal(
        file_sink_type.snapshot(j.t[1], SNAPSHOT_END, &j.out, &j.e), 0);
    assert_int_equal(file_sink_type.prepare(j.s, &j.e), 0);
    keep(&j, 1, &given);
    assert_int_equal(file_sink_type.committed(j.s, 1, false, &j.e), 0);
    assert_string_equal(listing(&j), TEMP(P0_1) "\n" TEMP(P1_1) "\n");
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
a_part_that_its_reader_took_is_not_missed(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    (void)snprintf(j.more, sizeof j.more, ROLL);
    start(&j, 1);
    put(&j, 0, 1);
    complete_round(&j);
    remove_file(&j, P0_1);
    stop(&j);
    start(&j, 1);
    put(&j, 0, 2);
    complete_round(&j);
    /* Nor is its number used again. */
    assert_string_equal(listing(&j), P0_2 "\n");
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
a_recorded_part_that_is_missing_or_short_is_damage(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    (void)snprintf(j.more, sizeof j.more, ",\"roll\":{\"size\":20}");
    start(&j, 1);
    put(&j, 0, 1);
    put(&j, 0, 2);
    put(&j, 0, 3);
    prepare_round(&j);
    stop(&j);
    write_file(&j, TEMP(P0_2), "{\"i\":1");
    assert_int_equal(try_start(&j, 1), ERR_IO);
    assert_int_equal(err_exit_code(j.e.code), 74);
    assert_non_null(strstr(j.e.msg, "/out/" P0_2 "' has 6 bytes"));
    assert_non_null(strstr(j.e.msg, "checkpoint 1 10"));
    assert_string_equal(j.e.where, "job.lua:2");
    remove_file(&j, TEMP(P0_2));
    assert_int_equal(try_start(&j, 1), ERR_IO);
    assert_non_null(
        strstr(j.e.msg, "/out/" P0_2 "' of checkpoint 1 is missing"));
    /* Nothing was changed: the closed part is still in progress. */
    assert_string_equal(listing(&j), TEMP(P0_1) "\n");
    write_file(&j, TEMP(P0_2), "{\"i\":103}\n{\"i");
    remove_file(&j, TEMP(P0_1));
    assert_int_equal(try_start(&j, 1), ERR_IO);
    assert_non_null(
        strstr(j.e.msg, "/out/" P0_1 "' of checkpoint 1 is missing"));
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
the_directory_must_be_where_the_checkpoint_is(void **state)
{
    static const struct {
        const char *lineage;
        int marker, round;
        const char *words[4];
    } cases[] = {
        {OURS, 3, 2, {"ahead", "checkpoint 3 there, 2 here", "--recover=rew"}},
        {OURS, 1, 0, {"ahead", "checkpoint 1 there, 0 here", "--recover=rew"}},
        {OURS, 1, 3, {"behind", "checkpoint 1 there, 3 here", "--fresh"}},
        {OTHER, 2, 2, {OTHER, OURS, "checkpoint 2", "own"}},
        {OTHER, 7, 0, {OTHER, OURS, "checkpoint 7", "--recover=discard-state"}},
    };
    size_t i, k;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *dir = help_dir_make();
        struct job j;

        job_init(&j, dir);
        start(&j, 1);
        put(&j, 0, 1);
        complete_round(&j);
        stop(&j);
        write_marker(&j, cases[i].lineage, cases[i].marker);
        j.ckpt.round = (uint64_t)cases[i].round;
        if (cases[i].round == 0)
            help_blobs_free(&j.kept);
        assert_int_equal(try_start(&j, 1), ERR_CONFIG);
        assert_int_equal(err_exit_code(j.e.code), 78);
        for (k = 0; k < 4 && cases[i].words[k] != NULL; k++)
            if (strstr(j.e.msg, cases[i].words[k]) == NULL &&
                strstr(j.e.hint, cases[i].words[k]) == NULL)
                fail_msg("'%s' is not in: %s (%s)", cases[i].words[k], j.e.msg,
                         j.e.hint);
        assert_non_null(strstr(j.e.msg, j.dir));
        assert_string_equal(listing(&j), TEMP(P0_1) "\n");
        job_fini(&j);
        help_dir_remove(&dir);
    }
}

static void
a_directory_without_its_marker_is_refused(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    start(&j, 1);
    put(&j, 0, 1);
    complete_round(&j);
    stop(&j);
    remove_file(&j, ".streamlua");
    assert_int_equal(try_start(&j, 1), ERR_CONFIG);
    assert_non_null(strstr(j.e.msg, "has no marker"));
    write_file(&j, ".streamlua", "streamlua file sink 1\nlineage a1\n");
    assert_int_equal(try_start(&j, 1), ERR_IO);
    assert_non_null(strstr(j.e.msg, "damaged"));
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
rewind_goes_on_from_the_own_checkpoint(void **state)
{
    char *dir = help_dir_make();
    struct step_blobs old;
    struct job j;

    (void)state;
    job_init(&j, dir);
    (void)snprintf(j.more, sizeof j.more, ",\"roll\":{\"size\":30}");
    start(&j, 2);
    put(&j, 0, 1);
    put(&j, 1, 2);
    complete_round(&j);
    old = j.kept; /* a backup of the state */
    memset(&j.kept, 0, sizeof j.kept);
    put(&j, 0, 3);
    put(&j, 0, 5); /* closes the part of task 0 */
    put(&j, 0, 7);
    put(&j, 1, 4);
    complete_round(&j);
    complete_round(&j);
    stop(&j);
    keep(&j, 1, &old);
    assert_int_equal(try_start(&j, 2), ERR_CONFIG);
    j.ckpt.recover = RECOVER_REWIND;
    start(&j, 2);
    put(&j, 0, 3);
    put(&j, 1, 4);
    finish(&j);
    /* Row 3 is there twice, as was said; all else once. */
    assert_string_equal(listing(&j), P0_1 "\npart-0-000003.jsonl\n" P1_1 "\n");
    assert_string_equal(content(&j, P0_1),
                        "{\"i\":101}\n{\"i\":103}\n{\"i\":105}\n");
    assert_string_equal(content(&j, "part-0-000003.jsonl"), "{\"i\":103}\n");
    assert_string_equal(content(&j, P1_1), "{\"i\":102}\n{\"i\":104}\n");
    assert_non_null(strstr(content(&j, ".streamlua"), "\nround 2\n"));
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
a_new_lineage_replaces_the_marker_and_numbers_on(void **state)
{
    static const enum conn_recover flags[] = {RECOVER_FRESH, RECOVER_DISCARD};
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        char *dir = help_dir_make();
        struct job j;

        job_init(&j, dir);
        (void)snprintf(j.more, sizeof j.more, ",\"roll\":{\"size\":20}");
        start(&j, 1);
        put(&j, 0, 1);
        put(&j, 0, 2);
        put(&j, 0, 3);
        complete_round(&j);
        stop(&j);
        help_blobs_free(&j.kept);
        j.ckpt.round = 0;
        memset(j.lineage, 0xb2, sizeof j.lineage);
        assert_int_equal(try_start(&j, 1), ERR_CONFIG);
        j.ckpt.recover = flags[i];
        start(&j, 1);
        assert_string_equal(listing(&j), P0_1 "\n");
        assert_string_equal(content(&j, ".streamlua"),
                            "streamlua file sink 1\nlineage " OTHER
                            "\nround 0\nfinal no\n");
        put(&j, 0, 4);
        finish(&j);
        assert_string_equal(listing(&j), P0_1 "\npart-0-000003.jsonl\n");
        job_fini(&j);
        help_dir_remove(&dir);
    }
}

static void
a_copy_of_the_job_leaves_the_parts_to_the_first_one(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    start(&j, 1);
    put(&j, 0, 1);
    complete_round(&j);
    stop(&j);
    /* --from its savepoint --new-lineage, with a directory of its own */
    j.dir = help_path(&j.a, dir, "copy");
    memset(j.lineage, 0xb2, sizeof j.lineage);
    j.ckpt.recover = RECOVER_FRESH;
    start(&j, 1);
    put(&j, 0, 2);
    finish(&j);
    assert_string_equal(content(&j, P0_1), "{\"i\":102}\n");
    j.dir = help_path(&j.a, dir, "out");
    assert_string_equal(listing(&j), TEMP(P0_1) "\n");
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
another_path_is_refused_before_anything_is_made(void **state)
{
    char *dir = help_dir_make();
    struct stat st;
    struct job j;

    (void)state;
    job_init(&j, dir);
    start(&j, 1);
    complete_round(&j); /* also without parts */
    stop(&j);
    j.dir = help_path(&j.a, dir, "elsewhere");
    assert_int_equal(try_start(&j, 1), ERR_JOBFILE);
    assert_int_equal(err_exit_code(j.e.code), 65);
    assert_non_null(strstr(j.e.msg, "/out'"));
    assert_non_null(strstr(j.e.msg, "/elsewhere'"));
    assert_string_equal(j.e.where, "job.lua:2");
    assert_int_equal(stat(j.dir, &st), -1);
    /* The same directory by another name is the same. */
    assert_int_equal(symlink(help_path(&j.a, dir, "out"), j.dir), 0);
    start(&j, 1);
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
parts_of_a_step_that_changed_its_name_are_not_thrown_away(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    start(&j, 1);
    put(&j, 0, 1);
    complete_round(&j);
    stop(&j);
    help_blobs_free(&j.kept);
    assert_int_equal(try_start(&j, 1), ERR_JOBFILE);
    assert_non_null(strstr(j.e.msg, "checkpoint 1"));
    assert_string_equal(content(&j, TEMP(P0_1)), "{\"i\":101}\n");
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
a_step_that_was_another_kind_of_sink_begins_anew(void **state)
{
    char *dir = help_dir_make();
    struct job j;

    (void)state;
    job_init(&j, dir);
    j.ckpt.round = 4;
    buf_init(help_blobs_add(&j.kept)); /* stdout remembers nothing */
    start(&j, 1);
    put(&j, 0, 1);
    finish(&j);
    assert_string_equal(listing(&j), P0_1 "\n");
    assert_non_null(strstr(content(&j, ".streamlua"), "\nround 5\n"));
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
a_directory_that_is_gone_is_where_it_was(void **state)
{
    static const char *const names[][2] = {
        {"out", ""}, {"./out", ""}, {"out/", ""}, {"../", "/out/."}};
    char *dir = help_dir_make(), *cwd = getcwd(NULL, 0), name[300];
    struct job j;
    size_t i;

    (void)state;
    job_init(&j, dir);
    start(&j, 1);
    put(&j, 0, 1);
    complete_round(&j);
    stop(&j);
    remove_file(&j, ".streamlua");
    remove_file(&j, TEMP(P0_1));
    assert_int_equal(chdir(dir), 0);
    for (i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof name, "%s%s%s", names[i][0],
                       i == 3 ? strrchr(dir, '/') + 1 : "", names[i][1]);
        assert_int_equal(rmdir("out"), 0);
        j.dir = name;
        /* Not another path: it has lost its marker. */
        assert_int_equal(try_start(&j, 1), ERR_CONFIG);
        assert_non_null(strstr(j.e.msg, "has no marker"));
    }
    assert_int_equal(chdir(cwd), 0);
    free(cwd);
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
a_directory_has_one_sink(void **state)
{
    char *dir = help_dir_make();
    struct job j, other;

    (void)state;
    job_init(&j, dir);
    job_init(&other, dir);
    start(&j, 1);
    assert_int_equal(try_start(&other, 1), ERR_BUSY);
    assert_int_equal(err_exit_code(other.e.code), 73);
    job_fini(&other);
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
damaged_snapshots_are_refused(void **state)
{
    char *dir = help_dir_make();
    struct buf *b;
    struct job j;

    (void)state;
    job_init(&j, dir);
    start(&j, 1);
    put(&j, 0, 1);
    complete_round(&j);
    stop(&j);
    b = &j.kept.blobs[0];
    buf_addc(b, 0);
    assert_int_equal(try_start(&j, 1), ERR_IO);
    for (b->len--; b->len > 1;) {
        b->len--;
        assert_int_equal(try_start(&j, 1), ERR_IO);
    }
    assert_string_equal(content(&j, TEMP(P0_1)), "{\"i\":101}\n");
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
many_parts_in_a_round_do_not_use_up_the_open_files(void **state)
{
    char *dir = help_dir_make();
    struct rlimit old, small;
    struct job j;
    int i;

    (void)state;
    job_init(&j, dir);
    (void)snprintf(j.more, sizeof j.more, ROLL);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    small = old;
    small.rlim_cur = 80;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    start(&j, 1);
    for (i = 0; i < 300; i++)
        put(&j, 0, i);
    complete_round(&j);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_string_equal(content(&j, "part-0-000300.jsonl"), "{\"i\":399}\n");
    assert_null(strstr(listing(&j), "inprogress"));
    job_fini(&j);
    help_dir_remove(&dir);
}

static void
disk_errors_of_a_round_name_the_part(void **state)
{
#ifdef STREAMLUA_TEST_MODE
    static const char *const rolls[] = {ROLL, ""}; /* closed, open */
    struct step_blobs given = {0};
    char *dir = help_dir_make();
    struct job j;
    size_t i;

    (void)state;
    job_init(&j, dir);
    for (i = 0; i < 2; i++) {
        (void)snprintf(j.more, sizeof j.more, "%s", rolls[i]);
        start(&j, 1);
        put(&j, 0, 1);
        give(&j, 1, &given);
        fault_setup("file_sink_sync=1");
        assert_int_equal(file_sink_type.prepare(j.s, &j.e), ERR_IO);
        assert_non_null(strstr(j.e.msg, "part-0-00000"));
        fault_setup(NULL);
        stop(&j);
        help_blobs_free(&given);
    }
    (void)snprintf(j.more, sizeof j.more, ROLL);
    fault_setup("file_sink_marker=1");
    assert_int_equal(try_start(&j, 1), ERR_IO);
    assert_non_null(strstr(j.e.msg, ".streamlua"));
    fault_setup(NULL);
    start(&j, 1);
    put(&j, 0, 1);
    prepare_round(&j);
    fault_setup("file_sink_rename=1");
    assert_int_equal(file_sink_type.committed(j.s, 1, false, &j.e), ERR_IO);
    assert_non_null(strstr(j.e.msg, "cannot rename '"));
    stop(&j);
    fault_setup(NULL);
    start(&j, 1); /* the round is complete all the same */
    assert_null(strstr(listing(&j), "inprogress"));
    assert_non_null(strstr(listing(&j), "part-0-0"));
    job_fini(&j);
    help_dir_remove(&dir);
#else
    (void)state;
    skip();
#endif
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_appears_with_the_round_behind_its_closing),
        cmocka_unit_test(
            a_restore_cuts_the_open_part_and_its_task_goes_on_with_it),
        cmocka_unit_test(
            what_no_complete_round_knows_is_removed_at_the_next_start),
        cmocka_unit_test(
            a_round_that_was_complete_is_published_by_the_next_start),
        cmocka_unit_test(
            parts_of_subtasks_that_vanish_are_published_by_the_next_round),
        cmocka_unit_test(
            a_part_of_another_format_is_closed_instead_of_gone_on_with),
        cmocka_unit_test(a_final_round_leaves_nothing_in_progress),
        cmocka_unit_test(
            a_finished_job_publishes_what_it_had_not_when_it_is_started_again),
        cmocka_unit_test(
            a_final_round_made_of_barriers_cuts_what_came_behind_them),
        cmocka_unit_test(
            a_task_that_ended_early_publishes_with_the_round_it_is_in),
        cmocka_unit_test(a_part_that_its_reader_took_is_not_missed),
        cmocka_unit_test(a_recorded_part_that_is_missing_or_short_is_damage),
        cmocka_unit_test(the_directory_must_be_where_the_checkpoint_is),
        cmocka_unit_test(a_directory_without_its_marker_is_refused),
        cmocka_unit_test(rewind_goes_on_from_the_own_checkpoint),
        cmocka_unit_test(a_new_lineage_replaces_the_marker_and_numbers_on),
        cmocka_unit_test(a_copy_of_the_job_leaves_the_parts_to_the_first_one),
        cmocka_unit_test(another_path_is_refused_before_anything_is_made),
        cmocka_unit_test(
            parts_of_a_step_that_changed_its_name_are_not_thrown_away),
        cmocka_unit_test(a_step_that_was_another_kind_of_sink_begins_anew),
        cmocka_unit_test(a_directory_that_is_gone_is_where_it_was),
        cmocka_unit_test(a_directory_has_one_sink),
        cmocka_unit_test(damaged_snapshots_are_refused),
        cmocka_unit_test(many_parts_in_a_round_do_not_use_up_the_open_files),
        cmocka_unit_test(disk_errors_of_a_round_name_the_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
