"""The page that people look at: a report about workloads as one HTML file, or as an app inside of a client."""
