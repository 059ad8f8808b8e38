#include "files.h"
#include <cstdio>
#include <cstdlib>

namespace {

void fail(const std::string &path)
{
    std::fprintf(stderr, "%s cannot be read or written\n", path.c_str());
    std::exit(1);
}

template <class T> void read(std::FILE *file, std::vector<T> &to, size_t size, const std::string &path)
{
    to.resize(size);
    if (std::fread(to.data(), sizeof(T), size, file) != size)
        fail(path);
}

template <class T> void write(std::FILE *file, const std::vector<T> &from, const std::string &path)
{
    if (std::fwrite(from.data(), sizeof(T), from.size(), file) != from.size())
        fail(path);
}

} // namespace

Case read_case(const std::string &path)
{
    std::FILE *file = std::fopen(path.c_str(), "rb");
    if (!file)
        fail(path);
    Case found{};
    int32_t sizes[4];
    float numbers[4];
    if (std::fread(sizes, sizeof(int32_t), 4, file) != 4 || std::fread(numbers, sizeof(float), 4, file) != 4)
        fail(path);
    found.width = sizes[0];
    found.height = sizes[1];
    found.steps = sizes[2];
    found.tracers = sizes[3];
    found.viscosity = numbers[0];
    found.sponge = numbers[1];
    found.force_x = numbers[2];
    found.force_y = numbers[3];
    size_t cells = (size_t)found.width * found.height;
    read(file, found.solid, cells, path);
    read(file, found.velocity_x, cells, path);
    read(file, found.velocity_y, cells, path);
    read(file, found.tracer_x, found.tracers, path);
    read(file, found.tracer_y, found.tracers, path);
    std::fclose(file);
    return found;
}

void write_results(const std::string &path, const Results &results)
{
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (!file)
        fail(path);
    write(file, results.density, path);
    write(file, results.velocity_x, path);
    write(file, results.velocity_y, path);
    write(file, results.tracer_x, path);
    write(file, results.tracer_y, path);
    write(file, results.norms, path);
    write(file, results.histogram, path);
    write(file, results.visits, path);
    std::fclose(file);
}
