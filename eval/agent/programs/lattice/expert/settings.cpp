#include "settings.h"
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace {

std::string trimmed(const std::string &text)
{
    size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
    return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

} // namespace

Settings::Settings(const std::string &path) : path_(path)
{
    std::ifstream file(path);
    if (!file) {
        std::fprintf(stderr, "%s cannot be read\n", path.c_str());
        std::exit(1);
    }
    std::string line, section;
    while (std::getline(file, line)) {
        line = trimmed(line.substr(0, line.find(';')));
        if (line.empty())
            continue;
        if (line.front() == '[' && line.back() == ']') {
            section = line.substr(1, line.size() - 2);
            continue;
        }
        size_t equals = line.find('=');
        if (equals == std::string::npos) {
            std::fprintf(stderr, "%s: what does \"%s\" mean?\n", path.c_str(), line.c_str());
            std::exit(1);
        }
        values_[section + "." + trimmed(line.substr(0, equals))] = std::atoi(line.c_str() + equals + 1);
    }
}

int Settings::number(const std::string &section, const std::string &name) const
{
    auto found = values_.find(section + "." + name);
    if (found == values_.end() || found->second < 1) {
        std::fprintf(stderr, "%s: %s of %s is missing or not positive\n", path_.c_str(), name.c_str(), section.c_str());
        std::exit(1);
    }
    return found->second;
}
