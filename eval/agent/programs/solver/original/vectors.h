// Operations on whole fields.
#pragma once
#include "field.h"

double dot(const Field &a, const Field &b);
void add_scaled(Field &y, float factor, const Field &x);       // y += factor * x
void scale_and_add(Field &p, float factor, const Field &z);    // p = z + factor * p
void divide(const Field &a, const Field &b, Field &result);    // result = a / b
void subtract(const Field &a, const Field &b, Field &result);  // result = a - b
void copy(const Field &from, Field &to);
