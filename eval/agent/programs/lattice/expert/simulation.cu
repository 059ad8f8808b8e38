#include "simulation.h"
#include "diagnostics.h"
#include "fields.h"
#include "flow.h"
#include "relaxation.h"
#include "tracers.h"

Results simulate(const Case &given, const Settings &settings)
{
    Grid grid{given.width, given.height};
    Medium medium{given.viscosity, given.sponge};
    int block = settings.number("flow", "block");
    Flow flow(grid, given.solid, Force{given.force_x, given.force_y}, block);
    flow.begin(Array<float>(given.velocity_x), Array<float>(given.velocity_y));
    Tracers tracers(grid, given.tracer_x, given.tracer_y, settings.number("tracers", "block"));
    Diagnostics diagnostics(grid, settings.number("diagnostics", "norms_every"),
                            settings.number("diagnostics", "histogram_every"), given.steps,
                            settings.number("diagnostics", "block"));
    Array<float> rates(grid.cells());
    fill_relaxation(grid, medium, rates, block);
    Fields fields(grid);
    for (int i = 0; i < given.steps; i++) {
        flow.step(rates, fields);
        tracers.step(fields);
        diagnostics.step(fields);
    }
    Results results;
    results.density = fields.density.download();
    results.velocity_x = fields.velocity_x.download();
    results.velocity_y = fields.velocity_y.download();
    tracers.write(results);
    diagnostics.write(results);
    return results;
}
