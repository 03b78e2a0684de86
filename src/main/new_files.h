/*
 * The files that `new` writes, by template.
 *
 * In a text `@NAME@` stands for the job's name. Constants; any thread.
 */
#ifndef MAIN_NEW_FILES_H
#define MAIN_NEW_FILES_H

struct new_template {
    const char *name;
    const char *job, *test; /* job.lua, job_test.lua */
    const char *what;       /* for the README */
    const char *run;        /* a shell command; @DIR@ is the folder */
};

extern const struct new_template new_templates[];
extern const unsigned new_template_count;

extern const char new_readme[];
extern const char new_luacheckrc[];

#endif
