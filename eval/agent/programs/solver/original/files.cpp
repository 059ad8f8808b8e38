#include "files.h"
#include <cstdio>
#include <cstdlib>

namespace {

void fail(const std::string &path)
{
    std::fprintf(stderr, "%s cannot be read or written\n", path.c_str());
    std::exit(1);
}

void read(std::FILE *file, void *to, size_t bytes, const std::string &path)
{
    if (std::fread(to, 1, bytes, file) != bytes)
        fail(path);
}

} // namespace

Case read_case(const std::string &path)
{
    std::FILE *file = std::fopen(path.c_str(), "rb");
    if (!file)
        fail(path);
    Case found{};
    read(file, &found, 16, path);
    size_t points = (size_t)found.n * found.n * found.n;
    found.coefficients.resize(points);
    found.right.resize(points);
    read(file, found.coefficients.data(), points * sizeof(float), path);
    read(file, found.right.data(), points * sizeof(float), path);
    std::fclose(file);
    return found;
}

void write_result(const std::string &path, const std::vector<float> &u)
{
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (!file || std::fwrite(u.data(), sizeof(float), u.size(), file) != u.size())
        fail(path);
    std::fclose(file);
}
