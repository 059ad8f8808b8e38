#include "simulation.h"
#include "diagnostics.h"
#include "flow.h"
#include "macroscopic.h"
#include "relaxation.h"
#include "tracers.h"

namespace {

// What a step needs besides its state.
struct Workspace {
    explicit Workspace(const Grid &grid) : rates(grid.cells()), fields(grid) {}

    Array<float> rates;
    Macroscopic fields;
};

} // namespace

Results simulate(const Case &given, const Settings &settings)
{
    Grid grid{given.width, given.height};
    Medium medium{given.viscosity, given.sponge};
    int block = settings.number("flow", "block");
    Flow flow(grid, given.solid, Force{given.force_x, given.force_y}, settings.number("flow", "rows_per_launch"), block);
    flow.begin(Array<float>(given.velocity_x), Array<float>(given.velocity_y));
    Tracers tracers(grid, given.tracer_x, given.tracer_y, settings.number("tracers", "sort_every"),
                    settings.number("tracers", "block"));
    Diagnostics diagnostics(grid, settings.number("diagnostics", "norms_every"),
                            settings.number("diagnostics", "histogram_every"), block);
    Results results;
    for (int i = 0; i < given.steps; i++) {
        Workspace workspace(grid);
        fill_relaxation(grid, medium, workspace.rates, block);
        flow.step(workspace.rates);
        workspace.fields.compute(flow);
        tracers.step(workspace.fields);
        diagnostics.step(workspace.fields);
        if (i + 1 == given.steps) {
            results.density = workspace.fields.density.download();
            results.velocity_x = workspace.fields.velocity_x.download();
            results.velocity_y = workspace.fields.velocity_y.download();
        }
    }
    tracers.write(results);
    diagnostics.write(results);
    return results;
}
