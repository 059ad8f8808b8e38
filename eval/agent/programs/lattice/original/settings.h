// Settings in a file of sections with names and whole numbers.
#pragma once
#include <map>
#include <string>

class Settings {
public:
    explicit Settings(const std::string &path);
    int number(const std::string &section, const std::string &name) const;

private:
    std::string path_;
    std::map<std::string, int> values_;
};
