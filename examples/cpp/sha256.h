// SHA-256 (FIPS 180-4). With OpenSSL at hand, use that.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

inline uint32_t turned(uint32_t x, int by) { return x >> by | x << (32 - by); }

inline std::string sha256(std::string data) {
    uint32_t h[8], k[64];
    for (int prime = 2, n = 0; n < 64; ++prime) {  // first bits of the roots of the first primes
        bool is_prime = true;
        for (int d = 2; d * d <= prime; ++d) is_prime = is_prime && prime % d;
        if (!is_prime) continue;
        auto bits = [](long double root) { return uint32_t((root - std::floor(root)) * 4294967296.0L); };
        if (n < 8) h[n] = bits(std::sqrt((long double)prime));
        k[n++] = bits(std::cbrt((long double)prime));
    }
    const uint64_t length = data.size() * 8;
    data += '\x80';
    while (data.size() % 64 != 56) data += '\0';
    for (int shift = 56; shift >= 0; shift -= 8) data += char(length >> shift);
    for (size_t block = 0; block < data.size(); block += 64) {
        uint32_t w[64], v[8];
        for (int i = 0; i < 16; ++i) {
            w[i] = 0;
            for (int j = 0; j < 4; ++j) w[i] = w[i] << 8 | uint8_t(data[block + 4 * i + j]);
        }
        for (int i = 16; i < 64; ++i) {
            const uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) +
                   (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
        }
        for (int i = 0; i < 8; ++i) v[i] = h[i];
        for (int i = 0; i < 64; ++i) {
            const uint32_t one = turned(v[4], 6) ^ turned(v[4], 11) ^ turned(v[4], 25);
            const uint32_t two = turned(v[0], 2) ^ turned(v[0], 13) ^ turned(v[0], 22);
            const uint32_t x = v[7] + one + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
            const uint32_t y = two + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
            for (int j = 7; j > 0; --j) v[j] = v[j - 1];
            v[4] += x;
            v[0] = x + y;
        }
        for (int i = 0; i < 8; ++i) h[i] += v[i];
    }
    std::string out;
    for (uint32_t word : h) {
        char text[9];
        std::snprintf(text, sizeof text, "%08x", word);
        out += text;
    }
    return out;
}
