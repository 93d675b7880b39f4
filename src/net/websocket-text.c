/* SPDX-License-Identifier: Apache-2.0 */
/* What both ends of a WebSocket need and does no I/O: headers, the handshake's hash, UTF-8. */
#include <string.h>

#include "net/sha1.h"
#include "net/websocket-frames.h"

size_t websocket_header(uint8_t ret[WEBSOCKET_HEADER_MAX], unsigned opcode, uint64_t size,
                        const uint8_t mask[4])
{
    size_t used = 2;
    uint8_t masked = mask ? 0x80 : 0;
    ret[0] = (uint8_t)(0x80 | opcode);
    if (size < 126) {
        ret[1] = (uint8_t)(masked | size);
    } else {
        unsigned bytes = size < 65536 ? 2 : 8;
        ret[1] = (uint8_t)(masked | (bytes == 2 ? 126 : 127));
        while (bytes--)
            ret[used++] = (uint8_t)(size >> (8 * bytes));
    }
    if (mask) {
        memcpy(ret + used, mask, 4);
        used += 4;
    }
    return used;
}

size_t websocket_close_payload(uint8_t ret[WEBSOCKET_CONTROL_MAX], int code, const char *reason)
{
    size_t size = reason ? strlen(reason) : 0;
    if (size > WEBSOCKET_CONTROL_MAX - 2) {
        size = WEBSOCKET_CONTROL_MAX - 2;
        while (size && ((unsigned char)reason[size] & 0xc0) == 0x80)
            size--;
    }
    ret[0] = (uint8_t)(code >> 8);
    ret[1] = (uint8_t)code;
    if (size)
        memcpy(ret + 2, reason, size);
    return size + 2;
}

void websocket_accept_key(const char *key, char ret[WEBSOCKET_ACCEPT_SIZE + 1])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[WEBSOCKET_KEY_SIZE + sizeof guid];
    uint8_t hash[SHA1_SIZE + 1] = {0};
    memcpy(text, key, WEBSOCKET_KEY_SIZE);
    memcpy(text + WEBSOCKET_KEY_SIZE, guid, sizeof guid);
    sha1_short(text, sizeof text - 1, hash);
    for (unsigned i = 0; i < SHA1_SIZE + 1; i += 3) {
        uint32_t group = (uint32_t)hash[i] << 16 | (uint32_t)hash[i + 1] << 8 | hash[i + 2];
        for (int shift = 18; shift >= 0; shift -= 6)
            *ret++ = letters[group >> shift & 63];
    }
    /* Twenty bytes leave room for one sign of padding. */
    ret[-1] = '=';
    *ret = '\0';
}

static bool utf8_lead(struct utf8_check *check, unsigned char c)
{
    check->low = 0x80;
    check->high = 0xbf;
    if (c >= 0xc2 && c <= 0xdf) {
        check->need = 1;
    } else if (c >= 0xe0 && c <= 0xef) {
        check->need = 2;
        if (c == 0xe0)
            check->low = 0xa0;
        if (c == 0xed)
            check->high = 0x9f;
    } else if (c >= 0xf0 && c <= 0xf4) {
        check->need = 3;
        if (c == 0xf0)
            check->low = 0x90;
        if (c == 0xf4)
            check->high = 0x8f;
    } else {
        return false;
    }
    return true;
}

bool utf8_check_feed(struct utf8_check *check, const char *data, size_t size)
{
    for (size_t i = 0; i < size;) {
        uint64_t eight;
        /* Most text is ASCII. */
        if (check->need == 0 && size - i >= 8) {
            memcpy(&eight, data + i, 8);
            if (!(eight & 0x8080808080808080)) {
                i += 8;
                continue;
            }
        }
        unsigned char c = (unsigned char)data[i++];
        if (check->need == 0) {
            if (c >= 0x80 && !utf8_lead(check, c))
                return false;
            continue;
        }
        if (c < check->low || c > check->high)
            return false;
        check->need--;
        check->low = 0x80;
        check->high = 0xbf;
    }
    return true;
}

bool websocket_close_code_valid(int code)
{
    return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
           (code >= 3000 && code <= 4999);
}
