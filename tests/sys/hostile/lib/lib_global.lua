-- A module that assigns a global in a call.
return { set = function() fresh_of_module = 1 end }
