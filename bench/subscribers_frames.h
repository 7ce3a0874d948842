/* A server's WebSocket frames (RFC 6455 section 5.2) for subscribers.c. They come in parts: of each the beginning and the end
   of its text are kept. */
#include <stdint.h>
#include <string.h>

enum { FRAME_BEGINNING = 16, FRAME_END = 32 };

struct frames {
    unsigned char head[10];
    unsigned head_length;
    uint64_t length, taken;       /* of the text */
    char beginning[FRAME_BEGINNING], end[FRAME_END];
};

/* Bytes of a head whose second byte is known. */
static unsigned frame_head_bytes(const struct frames *one) {
    unsigned size = one->head[1] & 0x7F;
    return size == 127 ? 10 : size == 126 ? 4 : 2;
}

static int frame_has_head(const struct frames *one) {
    return one->head_length >= 2 && one->head_length == frame_head_bytes(one);
}

static int frame_is_whole(const struct frames *one) { return frame_has_head(one) && one->taken == one->length; }
static int frame_is_text(const struct frames *one) { return (one->head[0] & 0x0F) == 1; }
static int frame_is_closing(const struct frames *one) { return (one->head[0] & 0x0F) == 8; }

static int frame_begins(const struct frames *one, const char *text) {
    return one->length >= strlen(text) && !memcmp(one->beginning, text, strlen(text));
}

static int frame_ends(const struct frames *one, const char *text) {
    return one->length >= strlen(text) && !memcmp(one->end + FRAME_END - strlen(text), text, strlen(text));
}

static void next_frame(struct frames *one) { one->head_length = 0, one->length = one->taken = 0; }

static void take_head_byte(struct frames *one, unsigned char byte) {
    one->head[one->head_length++] = byte;
    if (!frame_has_head(one)) return;
    if (one->head_length == 2) one->length = byte & 0x7F;
    else for (unsigned n = 2; n < one->head_length; n++) one->length = one->length << 8 | one->head[n];
}

/* Takes bytes up to the end of a frame; returns how many. */
static size_t take_frame(struct frames *one, const char *bytes, size_t length) {
    size_t at = 0;
    while (at < length && !frame_has_head(one)) take_head_byte(one, (unsigned char)bytes[at++]);
    size_t rest = length - at, part = one->length - one->taken < rest ? (size_t)(one->length - one->taken) : rest;
    if (!frame_has_head(one) || !part) return at;
    if (one->taken < FRAME_BEGINNING) {
        size_t room = FRAME_BEGINNING - (size_t)one->taken;
        memcpy(one->beginning + one->taken, bytes + at, part < room ? part : room);
    }
    size_t last = part < FRAME_END ? part : FRAME_END;
    memmove(one->end, one->end + last, FRAME_END - last);
    memcpy(one->end + FRAME_END - last, bytes + at + part - last, last);
    one->taken += part;
    return at + part;
}
