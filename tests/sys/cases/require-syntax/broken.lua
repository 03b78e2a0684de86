local x

x = = 1
