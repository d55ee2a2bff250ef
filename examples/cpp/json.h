// The part of JSON that a bundle needs. Scalars keep their text, so that nothing is reformatted.
#pragma once
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct Json {
    std::string text;                     // of a number, string (with its quotes), true, false, null
    std::vector<Json> items;              // of an array
    std::map<std::string, Json> members;  // of an object, by key (with its quotes), sorted
    char kind = 's';                      // 's' scalar, '[' array, '{' object

    const Json& at(const std::string& key) const {
        const auto found = members.find('"' + key + '"');
        if (found == members.end()) throw std::runtime_error("key '" + key + "' is missing");
        return found->second;
    }
    std::string string() const { return text.substr(1, text.size() - 2); }

    // The nearest float; 0 for numbers that are too small.
    float number() const {
        char* end;
        const float value = std::strtof(text.c_str(), &end);
        if (kind != 's' || text.empty() || *end) throw std::runtime_error("JSON: " + text + " is no number");
        return value;
    }

    // All numbers of nested arrays, row by row; `shape` becomes their sizes.
    void flatten(std::vector<float>& values, std::vector<int64_t>* shape = nullptr) const {
        if (kind != '[') return values.push_back(number());
        if (shape) shape->push_back(int64_t(items.size()));
        for (size_t i = 0; i < items.size(); ++i) items[i].flatten(values, i ? nullptr : shape);
    }

    // Sorted keys, separated by ", " and ": ": the text of the contract's own hash.
    std::string canonical() const {
        if (kind == 's') return text;
        std::string out;
        auto separate = [&] { if (!out.empty()) out += ", "; };
        for (auto& item : items) { separate(); out += item.canonical(); }
        for (auto& [key, value] : members) { separate(); out += key + ": " + value.canonical(); }
        return kind == '[' ? '[' + out + ']' : '{' + out + '}';
    }
};

inline void skip(const char*& p) { while (*p && std::string(" \n\r\t").find(*p) != std::string::npos) ++p; }

inline Json parse(const char*& p) {
    Json json;
    skip(p);
    if (*p == '[' || *p == '{') {
        json.kind = *p;
        const char end = *p++ == '[' ? ']' : '}';
        for (skip(p); *p != end; skip(p)) {
            Json item = parse(p);
            skip(p);
            if (json.kind == '{') {
                if (*p++ != ':') throw std::runtime_error("JSON: a colon is missing");
                json.members[item.text] = parse(p);
            } else {
                json.items.push_back(item);
            }
            skip(p);
            if (*p == ',') ++p; else if (*p != end) throw std::runtime_error("JSON: cut short");
        }
        ++p;
    } else if (*p == '"') {
        const char* begin = p++;
        while (*p && *p != '"') p += *p == '\\' && p[1] ? 2 : 1;
        if (!*p) throw std::runtime_error("JSON: cut short");
        json.text.assign(begin, ++p);
    } else {
        const char* begin = p;
        while (*p && std::string(",]} \n\r\t").find(*p) == std::string::npos) ++p;
        json.text.assign(begin, p);
        if (json.text.empty()) throw std::runtime_error("JSON: a value is missing");
    }
    return json;
}
