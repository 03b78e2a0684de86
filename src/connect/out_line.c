#include "connect/out_line.h"

int
out_line(struct encoder *d, const struct rec *r, const char *key,
         uint32_t key_len, struct buf *out, struct err *e)
{
    size_t from = out->len;
    bool null;
    int got = encoder_encode(d, r, key, key_len, out, &null, e);

    if (got < 0)
        return got;
    /* JSON writes null; other formats have no line for an absent value. */
    if (null && out->len == from)
        return err_record(e, CAUSE_ENCODE,
                          "a tombstone has no line in this format; filter it "
                          "out or write json");
    buf_addc(out, '\n');
    return 0;
}
