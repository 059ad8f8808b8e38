SELECT ceiling, value FROM ceilings ORDER BY ALL
