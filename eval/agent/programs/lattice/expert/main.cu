// lattice CASE OUT: read a case, run the flow with its tracers, write the results.
#include "files.h"
#include "settings.h"
#include "simulation.h"
#include <cstdio>
#include <string>

int main(int count, char **words)
{
    if (count != 3) {
        std::fprintf(stderr, "usage: lattice CASE OUT\n");
        return 2;
    }
    std::string own = words[0];
    size_t slash = own.rfind('/');
    std::string folder = slash == std::string::npos ? "." : own.substr(0, slash);
    Settings settings(folder + "/lattice.ini");
    Case given = read_case(words[1]);
    Results results = simulate(given, settings);
    std::printf("%d steps, energy %.6g\n", given.steps, results.norms[results.norms.size() - 2]);
    write_results(words[2], results);
    return 0;
}
