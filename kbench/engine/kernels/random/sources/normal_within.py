"""A normal number within two deviations, of one uniform number.

It is the inverse of the distribution, a quotient of two polynomials (own fits, right to 7e-8 and
4e-16).
"""

from kbench.engine.intrinsics.specialized import DTYPE, formula, select, value


@formula
def polynomials(y):
    """Those above and below the line of the quotient."""
    if DTYPE == "float32":
        top = y * value(6.6587509683331385)
        top += value(75.07581966967214)
        top *= y
        top += value(93.96624602113936)
        top *= y
        top += value(27.88615410527473)
        top *= y
        top += value(2.0953383020862586)
        bottom = y * value(15.521211984304257)
        bottom += value(73.00362935275197)
        bottom *= y
        bottom += value(63.127709528521784)
        bottom *= y
        bottom += value(15.185377913387937)
        bottom *= y
        bottom += value(1.0)
    else:
        top = y * value(31.089434992341126)
        top += value(1692.7464994005006)
        top *= y
        top += value(13334.47622255301)
        top *= y
        top += value(34411.17425512492)
        top *= y
        top += value(38312.88034585703)
        top *= y
        top += value(21011.147449739336)
        top *= y
        top += value(6049.336237136014)
        top *= y
        top += value(923.8616123241048)
        top *= y
        top += value(70.3823688121628)
        top *= y
        top += value(2.095338452542888)
        bottom = y * value(131.30762732756892)
        bottom += value(2888.817858571498)
        bottom *= y
        bottom += value(15167.562371407217)
        bottom *= y
        bottom += value(30376.826253597814)
        bottom *= y
        bottom += value(28303.21364893553)
        bottom *= y
        bottom += value(13592.216512483)
        bottom *= y
        bottom += value(3531.8587533374002)
        bottom *= y
        bottom += value(497.25363074000694)
        bottom *= y
        bottom += value(35.46673683609767)
        bottom *= y
        bottom += value(1.0)
    return top, bottom


@formula
def within(u):
    """The normal number below which lies the share u of those between -2 and 2."""
    t = (u + u - value(1)) * value(0.9544997361036416)
    y = value(0.9110697462219214) - t * t
    top, bottom = polynomials(y)
    x = t * top / bottom
    x = select(x > value(2), value(2), x)
    return select(x < value(-2), value(-2), x)
